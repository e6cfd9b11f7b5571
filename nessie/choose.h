// Chooses the slot that a PUT or DELETE writes to (Nessie, 2017, 4.2.2; the hardened variant reads all
// candidates first, which fixes the known fault H1 of docs/protocols/nessie.md).
#pragma once

#include "nessie/put.h"

namespace loch::nessie {

// READs the key's candidate slots and chooses the one to write to. Stores the rank of the chosen slot, its
// number among the candidates, in w->rank (no_rank if all slots hold other keys), in w->is_update whether the
// chosen slot holds the key, and in w->seen the words read. Returns ok, conflict, expired or link_error.
[[nodiscard]] coro::Task<Attempt> choose(Access access, Writing* w);

}  // namespace loch::nessie
