// A worker's background work (2017, 4.2.5): marking DTEs that left the index, finding those of its own whose
// deadline has passed, and settling what operations had to leave unfinished, off their critical path.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Runs alongside the worker's clients until `*done`, and then until nothing is left to settle, or for
// nessie.settle-timeout.
[[nodiscard]] coro::Task<void> run_background(Lane* lane, const bool* done);

}  // namespace loch::nessie
