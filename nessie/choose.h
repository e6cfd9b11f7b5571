// Chooses the slot that a PUT or DELETE writes to (Nessie, 2017, 4.2.2; the hardened variant closes hole H1
// of docs/protocols/nessie.md).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// READs candidate slots and sets `seen`, `rank` and `is_update` of the Writing; `rank` remains no_rank if
// every candidate holds another key. The result is ok, conflict, expired or link_error.
[[nodiscard]] coro::Task<Attempt> choose(Access access, Writing* w);

}  // namespace loch::nessie
