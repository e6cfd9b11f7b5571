// The entry of a PUT or DELETE, from its allocation to the CAS that puts its word into the chosen slot
// (2017, 4.2.2).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// An entry in hand (Lane::in_hand.fresh), with key and value, pending unless the update is a fast one. Ends
// in ok or no_entry.
[[nodiscard]] coro::Task<Attempt> prepare_entry(Access access, Writing* w);

// CAS of the chosen slot from what was seen to the entry's word. Once ok, `own`, `replaced`, `seen` and the
// staged entries say what has changed. conflict: somebody was first, and the entry is still in hand.
// link_error: whether the CAS took place is unknown; it will be taken back (unfinished.h). ambiguous: nobody
// will ever know (H17).
[[nodiscard]] coro::Task<Attempt> link(Access access, Writing* w);

}  // namespace loch::nessie
