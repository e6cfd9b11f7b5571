// Examines entries in doubt. It is unknown whether an index word still names such an entry, because the last
// CAS of an operation ended in an error, a client died before it stamped the entry that it had replaced, that
// is, marked it as having left the index (H15 in docs/protocols/nessie.md), or a stamp arrived for another
// incarnation of the entry (case A2). The owner reads all candidate slots of the entry's key until two
// readings of all slots find the same words. If none of these names the entry, directly or as a pending
// entry's previous version, no word will ever name it again.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Examines some of the worker's entries in doubt (DataTable::take_doubt). If an index word names the entry,
// the doubt is over; if none does, the entry is marked for reuse; if this cannot be learned, the entry
// remains in doubt.
[[nodiscard]] coro::Task<void> settle_doubts(Lane* lane);

}  // namespace loch::nessie
