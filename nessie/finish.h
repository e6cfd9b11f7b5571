// How a PUT or DELETE ends once its word is in the slot (2017, 4.2.2, 4.2.4 and 4.3.2): other entries of the
// key go, as published, then it is committed, or taken back.
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// 2017 and 2015 (H1, H4, H5): other entries of the key beyond the own slot are CASed to EMPTY at once,
// pending ones too. They are staged.
[[nodiscard]] coro::Task<Attempt> remove_duplicates(Access access, Writing* w);

// Verified: a PUT's entry becomes valid, a tombstone leaves the index. conflict: somebody else took the word
// away. ambiguous: its CAS ended in an error, and goes on in the background (unfinished.h).
[[nodiscard]] coro::Task<Attempt> end(Access access, Writing* w);

// H3: the slot gets back exactly the word that it held; nothing that was replaced has been marked yet.
// Duplicates that were removed stay removed, and are marked. Ends as `why`, or in link_error or ambiguous if
// the slot's node cannot be reached.
[[nodiscard]] coro::Task<Attempt> roll_back(Access access, Writing* w, Attempt why);

// The entries that gave way are marked.
[[nodiscard]] coro::Task<void> recycle_staged(Access access, Writing* w);

}  // namespace loch::nessie
