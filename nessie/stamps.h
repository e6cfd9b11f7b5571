// Marking entries that have left the index, so that their owner uses them again after E (2017, 4.2.5
// and 4.3.1). One aligned word says which incarnation is free, and after what time: a flag beside a timestamp
// could be seen before it, and a stamp that executes late, or twice, would mark whatever lies there by then
// (A2, H15).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// The entry has left the index now. Its stamp is written at once, or queued for the background where
// nessie.stamping allows it or its node is out of reach.
[[nodiscard]] coro::Task<void> recycle(Access access, EntryId id);
// For an entry that may or may not have left the index: asks its owner to find out (doubts.h).
[[nodiscard]] coro::Task<void> suspect(Access access, EntryId id);

// Looks at up to `most` of those that wait; one whose node is out of reach goes back into the queue, and the
// node is not asked again for a while. Returns how many were marked.
[[nodiscard]] coro::Task<std::size_t> flush_stamps(Access access, std::size_t most);

}  // namespace loch::nessie
