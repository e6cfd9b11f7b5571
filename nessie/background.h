// A worker's background work (Nessie, 2017, 4.2.5), off the critical path of operations: stamping data table
// entries (DTEs) that have left the index, which marks them for reuse after a deadline; finding the worker's
// own DTEs whose deadline has passed; and completing or undoing operations that were left unfinished.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Runs alongside the worker's clients until `*done` is true, and then until all background work is done, but
// at most for nessie.settle-timeout.
[[nodiscard]] coro::Task<void> run_background(Lane* lane, const bool* done);

}  // namespace loch::nessie
