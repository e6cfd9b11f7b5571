// The entry of a PUT or DELETE, from its allocation to the CAS that stores its word in the chosen slot
// (Nessie, 2017, 4.2.2).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// Provides a pending entry with key and value in Lane::in_hand.fresh (a valid one for an update by a
// single CAS). Ends in ok or no_entry.
[[nodiscard]] coro::Task<Attempt> prepare_entry(Access access, Writing* w);

// CAS of the chosen slot from the word seen to the entry's word. If ok, `own`, `replaced`, `seen` and the
// staged entries of the Writing are set. conflict: another operation changed the slot first, and the entry
// stays in hand. link_error: the outcome of the CAS is unknown, and the background rolls it back
// (unfinished.h). ambiguous: the outcome will never be known (H17 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<Attempt> link(Access access, Writing* w);

}  // namespace loch::nessie
