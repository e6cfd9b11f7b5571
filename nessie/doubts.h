// Examines entries in doubt. Nobody knows whether an index word still names such an entry, because the last
// CAS of an operation ended in an error, a client died before it stamped the entry that it had replaced, or a
// stamp arrived for another incarnation (H15 in docs/protocols/nessie.md). The owner of such an entry finds
// out. It reads all candidate slots of the entry's key until two readings agree: if none names the entry,
// directly or as a pending entry's previous version, then no word ever will.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Examines some of the worker's entries in doubt (DataTable::take_doubt). Each turns out to be linked, or is
// stamped for reuse, or remains in doubt.
[[nodiscard]] coro::Task<void> settle_doubts(Lane* lane);

}  // namespace loch::nessie
