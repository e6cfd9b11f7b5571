// Chooses the slot that a PUT or DELETE writes to (Nessie, 2017, 4.2.2; the hardened variant closes the known
// fault H1 of docs/protocols/nessie.md).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// READs the key's candidate slots, chooses the one to write to and stores its number in w->rank (no_rank if
// all hold other keys), whether it holds the key in w->is_update, and the words read in w->seen. Returns ok,
// conflict, expired or link_error.
[[nodiscard]] coro::Task<Attempt> choose(Access access, Writing* w);

}  // namespace loch::nessie
