// Waits for a deadline on a thread of its own, and ends the process when the deadline passes.
#include "common/fabric/realtime/last_resort.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <utility>

namespace loch::fabric::realtime {

LastResort::LastResort(Nanos within, std::function<End()> end)
    : thread_([within, end = std::move(end)](const std::stop_token& cancelled) {
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        never.wait_for(lock, cancelled, std::chrono::nanoseconds(within), [] { return false; });
        if (cancelled.stop_requested()) return;
        const End how = end();
        fmt::print(stderr, "{}\n", how.line);
        std::_Exit(how.status);
      }) {}

LastResort::~LastResort() = default;

}  // namespace loch::fabric::realtime
