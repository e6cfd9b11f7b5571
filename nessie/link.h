// The entry of a PUT or DELETE, from its allocation to the CAS that stores its word in the chosen index slot
// (Nessie, 2017, 4.2.2).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// Allocates an entry, unless an earlier attempt left an unlinked one in Lane::in_hand.fresh, and writes key
// and value to it. The entry is pending, or already valid if a single CAS is to update the key. Ends in ok or
// no_entry.
[[nodiscard]] coro::Task<Attempt> prepare_entry(Access access, Writing* w);

// Links the prepared entry: a CAS of the chosen slot from the word last read there to the entry's word. ok:
// `own`, `replaced`, `seen` and `staged` of the Writing are set. conflict: another operation changed the slot
// first, and the entry remains allocated for the next attempt. link_error: the outcome of the CAS is unknown,
// and the worker's background work will roll it back (unfinished.h). ambiguous: the outcome will never be
// known (a failed CAS, H17 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<Attempt> link(Access access, Writing* w);

}  // namespace loch::nessie
