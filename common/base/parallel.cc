// Runs ranges of set-up work on one thread per CPU.
#include "common/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace loch {

void in_parallel(std::uint64_t count, std::uint64_t least,
                 const std::function<void(std::uint64_t from, std::uint64_t to)>& work) {
  if (count < 2 * least) return work(0, count);
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool is_known = sched_getaffinity(0, sizeof usable, &usable) == 0;
  const std::uint64_t cpus = is_known ? static_cast<std::uint64_t>(CPU_COUNT(&usable)) : 1;
  const std::uint64_t ranges = std::clamp<std::uint64_t>(count / std::max<std::uint64_t>(least, 1), 1,
                                                         std::max<std::uint64_t>(cpus, 1));
  std::vector<std::jthread> others;  // joined at the end
  for (std::uint64_t range = 1; range < ranges; ++range)
    others.emplace_back([&, range] { work(count * range / ranges, count * (range + 1) / ranges); });
  work(0, count / ranges);
}

}  // namespace loch
