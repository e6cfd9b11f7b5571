// Scrub, the repair after clients were fenced off (H12 in docs/protocols/nessie.md): repairs what dead
// clients left in the index. It may run only after the dead clients' queue pairs are destroyed and their
// processes are known to be gone, because a client that still runs could commit an entry by a local store
// after scrub has rolled it back. A DTE's node and index identify its client, since clients allocate on their
// own node.
//
//   PUT, tombstone   rolled back: CAS to the word that it replaced, or to EMPTY
//   MIGRATE's copy   committed if its source slot holds EMPTY|id of this copy, else dropped. (To commit
//                    it whenever the source has changed would be wrong: if a DELETE changed it, the copy
//                    would bring the deleted value back.)
//   tag              replaced by an EMPTY word without tag if the copy that it names is in no slot, because
//                    the share of the MIGRATE's target slot was declared lost
#pragma once

#include <vector>

#include "nessie/repairs.h"

namespace loch::nessie {

// Repairs what the dead clients `dead` left in the index, while living clients continue to operate. The
// result counts the repairs by kind. It is incomplete if some node could not be reached, and scrub() must
// then be called again.
[[nodiscard]] coro::Task<kv::Repair> scrub(RepairLanes* lanes, std::vector<kv::ClientId> dead);

}  // namespace loch::nessie
