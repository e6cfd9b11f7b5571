// Exponential back-off with full jitter.
#pragma once

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::kv {

// Waits for a random time in ns, at most start * 2^attempt and at most cap (both above 0). A short wait
// occupies the core. The worker has to outlive the task.
[[nodiscard]] coro::Task<void> back_off(fabric::Worker* worker, Nanos start, Nanos cap,
                                        std::uint32_t attempt);

}  // namespace loch::kv
