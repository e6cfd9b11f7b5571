// Exponential back-off with full jitter; or, for a worker that has one, the waits of its PacedWorker (SMART's
// conflict avoidance, conflicts.h).
#pragma once

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::kv {

// Waits before an operation's next attempt, after attempt `attempt`, counted from 0: for a random time in ns,
// at most start * 2^attempt and at most cap (both above 0), unless the worker has a PacedWorker
// (conflicts.h). A short wait occupies the core. The worker has to outlive the task.
[[nodiscard]] coro::Task<void> back_off(fabric::Worker* worker, Nanos start, Nanos cap,
                                        std::uint32_t attempt);

}  // namespace loch::kv
