// Declares nodes lost whose memory is lost (A4 in docs/protocols/nessie.md). The paper says "Failed nodes can
// be re-added or replaced" (Nessie, 2017, 7), but not how; this file defines it.
//
// Until the declaration, access to what a lost node held is an error and never a miss. The fabric has
// fenced the node: its memory is unreachable and its workers execute nothing. Then one surviving node
//   1. tells every member the new incarnation of the lost nodes, and that the shares of the index that they
//      hosted are void (lie on no node): from then on words that name the old incarnation count as EMPTY
//      (read_index()), and
//      no operation uses an old place of a share;
//   2. initialises those shares with EMPTY words: on the node itself if it is back, else in an area that a
//      surviving node reserves for lost shares (nessie.spare-shares);
//   3. tells every member where the shares lie now;
//   4. empties every word that names lost memory (a word that a rollback restores later is emptied by the
//      client that rolls back, or else by the next client that reads it), and has the owners check entries
//      that only lost shares named.
// A call that could not reach some node has to be repeated. The store remembers which nodes the first call
// declared lost, so that the repeated call does not declare values lost that these nodes have stored since.
#pragma once

#include <vector>

#include "nessie/repairs.h"

namespace loch::nessie {

// Declares the nodes `lost` lost; may run alongside clients. The result counts what was found and done. The
// result is incomplete if a node could not be reached, and the call has to be repeated; for the published
// variant it is always incomplete, because its index words do not tell which memory is lost.
[[nodiscard]] coro::Task<kv::Repair> declare_lost(RepairLanes* lanes, std::vector<fabric::NodeId> lost);

}  // namespace loch::nessie
