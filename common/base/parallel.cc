// Shares the parts of some work among threads.
#include "common/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace loch {

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

Result<> in_parallel(std::size_t parts, std::size_t threads,
                     const std::function<Result<>(std::size_t part)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t failed = parts;  // the lowest part that has failed
  Result<> result;
  const auto take_parts = [&] {
    for (std::size_t i = next++; i < parts; i = next++) {
      Result<> done = work(i);
      if (done) continue;
      const std::lock_guard lock(mutex);
      if (i < failed) {
        failed = i;
        result = std::move(done);
      }
      next = parts;  // every part below i has begun, and runs to its end
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(parts, threads); ++i) others.emplace_back(take_parts);
    take_parts();
  }
  return result;
}

}  // namespace loch
