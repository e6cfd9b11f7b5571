// Fence, then scrub (H12): frees what dead clients held. It runs after the dead nodes' queue pairs
// are destroyed and their processes are known to be gone: a late local commit would otherwise be
// possible. A DTE's place says whose it is, since clients allocate on their own node.
//
//   PUT, tombstone   taken back: CAS to the word that it replaced, or to EMPTY
//   MIGRATE's copy   committed if its source holds EMPTY|id of this copy, else dropped. ("The source
//                    has changed" would be wrong: a DELETE may have changed it, and the copy would
//                    bring the value back from the dead.)
//   a tag            of a copy that is in no slot, because its target was declared lost: EMPTY without it
#pragma once

#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

// On a lane of its own, alongside living clients. The counts say what was found and done, by kind; it is not
// complete if something could not be reached, and is to be called again then.
[[nodiscard]] coro::Task<kv::Repair> scrub(Lane* lane, std::vector<kv::ClientId> dead);

}  // namespace loch::nessie
