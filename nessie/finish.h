// Ends a PUT or DELETE whose word is in the index slot (Nessie, 2017, 4.2.2, 4.2.4 and 4.3.2): commits it or
// rolls it back. The published variants remove all other entries of the key before that.
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// Published variants only; this is the cause of the known faults H1, H4 and H5 of docs/protocols/nessie.md,
// by which values are lost: replaces every entry of the key in later candidate slots, committed or pending,
// by EMPTY with a CAS, and notes these entries, so that they are marked for reuse when the operation ends.
[[nodiscard]] coro::Task<Attempt> remove_duplicates(Access access, Writing* w);

// Ends a verified operation: a PUT's entry becomes valid, a DELETE's tombstone leaves the index. conflict:
// another operation has replaced or removed this operation's word. ambiguous: the CAS ended in an error, and
// the background finds out its outcome (unfinished.h).
[[nodiscard]] coro::Task<Attempt> end(Access access, Writing* w);

// Rolls the operation back (known fault H3 of docs/protocols/nessie.md is that the paper does not say how):
// restores the exact word that the slot held; the replaced entry has not been stamped (marked for reuse) yet.
// Duplicates that were removed stay removed and are stamped. The result is `why`, or link_error or ambiguous
// if the slot's node cannot be reached.
[[nodiscard]] coro::Task<Attempt> roll_back(Access access, Writing* w, Attempt why);

// Stamps (marks for reuse after the expiry period) the entries that this operation has removed from the
// index.
[[nodiscard]] coro::Task<void> recycle_staged(Access access, Writing* w);

}  // namespace loch::nessie
