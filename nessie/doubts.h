// Entries of which nobody knows whether a word of the index still names them: an operation's last CAS ended
// in an error, a client died before it marked what it had replaced, a stamp arrived for another incarnation
// (H15). The owner of such an entry finds out. It reads all slots that the entry's key can be in until two
// readings agree: a word that is in none of them, and is no pending entry's previous version, never comes
// back.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Looks at some of the worker's doubts (DataTable::take_doubt): each entry is linked, or marked, or doubted
// again.
[[nodiscard]] coro::Task<void> settle_doubts(Lane* lane);

}  // namespace loch::nessie
