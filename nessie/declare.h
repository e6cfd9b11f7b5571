// Nodes that are lost with their memory (A4). "Failed nodes can be re-added or replaced" (2017, 7) says that
// it can be done, not how; this is how.
//
// Until the declaration, what a lost node held is an error and never a miss. The fabric has fenced the node:
// nobody reaches its memory and nothing of its workers executes any more. Then one survivor
//   1. tells every member the new incarnation of the lost nodes, and that the shares of the index that they
//      hosted lie nowhere: from here on words that name the old incarnation are nobody's (read_index()), and
//      no operation holds on to an old place;
//   2. lays those shares out again, EMPTY: on the node itself if it is back, else in an area that a survivor
//      keeps for the purpose (nessie.spare-shares);
//   3. tells every member where they lie now;
//   4. empties every word that names lost memory (what a rollback brings back later is emptied by who rolls
//      back, or else by whoever meets it), and has the entries looked for that only lost shares named.
// A call that could not reach somebody is made again: the store remembers which nodes have their new
// incarnation, so that what they hold by then is not declared lost a second time.
#pragma once

#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

// On a lane of its own, alongside living clients. The counts say what was found and done; it is not complete,
// and is to be called again, if somebody could not be reached, or if the published variant's words do not say
// what is lost.
[[nodiscard]] coro::Task<kv::Repair> declare_lost(Lane* lane, std::vector<fabric::NodeId> lost);

}  // namespace loch::nessie
