// Fence, then scrub (H12 in docs/protocols/nessie.md): repairs what dead clients left in the index. It may
// run only after the dead clients' queue pairs are destroyed and their processes are known to be gone,
// because a late local commit would otherwise be possible. A DTE's node and index identify its client, since
// clients allocate on their own node.
//
//   PUT, tombstone   rolled back: CAS to the word that it replaced, or to EMPTY
//   MIGRATE's copy   committed if its source slot holds EMPTY|id of this copy, else dropped. (To commit
//                    it whenever the source has changed would be wrong: if a DELETE changed it, the copy
//                    would bring the deleted value back.)
//   tag              of a copy that is in no slot, because its target was declared lost: replaced by an
//                    EMPTY word without tag
#pragma once

#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

// Repairs what the clients `dead` left, on a lane of its own, alongside living clients. The result counts
// the repairs by kind; it is incomplete, and the call is to be repeated, if some node could not be
// reached.
[[nodiscard]] coro::Task<kv::Repair> scrub(Lane* lane, std::vector<kv::ClientId> dead);

}  // namespace loch::nessie
