// Stamps (marks) entries that have left the index, so that their owner reuses them after the expiry period
// (Nessie, 2017, 4.2.5 and 4.3.1). A stamp is one aligned word, which names the generation and incarnation of
// the entry that is free and the time from which it may be reused. Were a flag and a time two words, the
// owner could see the flag before the time; without the generation, a stamp that is executed late or twice
// could free a reused entry (case A2 in docs/protocols/nessie.md). An entry of a memory node
// (nessie.placement remote) gets no stamp: the worker that took it out of the index is its owner from then on
// (holdings.h).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Stamps an entry that has just left the index (marks it for later reuse): at once, or later in the
// background if nessie.stamping allows it or the entry's node is out of reach. With nessie.placement remote:
// makes this worker the entry's owner.
[[nodiscard]] coro::Task<void> recycle(Access access, EntryId id);
// Asks the owner of an entry to find out whether the entry has left the index (doubts.h); for use after an
// error. With nessie.placement remote: leaves the entry out of use, because its owner is unknown.
[[nodiscard]] coro::Task<void> suspect(Access access, EntryId id);

// Writes up to `most` queued stamps (marks that entries left the index) and returns the number written. A
// stamp whose node is out of reach returns to the queue, and the node is not tried again for a while.
[[nodiscard]] coro::Task<std::size_t> flush_stamps(Access access, std::size_t most);

}  // namespace loch::nessie
