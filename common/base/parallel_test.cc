// Tests that set-up work is divided without gaps, overlaps and small ranges.
#include "common/base/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace loch {
namespace {

struct Ranges {
  std::vector<int> times;  // how often each number was in a range
  std::uint64_t calls = 0, smallest = ~std::uint64_t{0};
  std::set<std::thread::id> threads;
};

Ranges ranges_of(std::uint64_t count, std::uint64_t least) {
  Ranges out;
  out.times.resize(count);
  std::mutex mutex;
  in_parallel(count, least, [&](std::uint64_t from, std::uint64_t to) {
    const std::scoped_lock lock(mutex);
    ++out.calls;
    out.smallest = std::min(out.smallest, to - from);
    out.threads.insert(std::this_thread::get_id());
    for (std::uint64_t i = from; i < to; ++i) ++out.times[i];
  });
  return out;
}

TEST(Parallel, EveryNumberIsInOneRange) {
  for (const std::uint64_t count : {0U, 1U, 2U, 7U, 1000U}) {
    const Ranges ranges = ranges_of(count, 1);
    for (const int times : ranges.times) EXPECT_EQ(times, 1) << count;
  }
}

TEST(Parallel, ThereAreAsManyThreadsAsCpusAndNoSmallRange) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  const auto cpus = static_cast<std::uint64_t>(CPU_COUNT(&usable));
  const Ranges all = ranges_of(10'000, 1);
  EXPECT_EQ(all.calls, cpus);
  EXPECT_EQ(all.threads.size(), cpus);
  EXPECT_GE(ranges_of(10'000, 4'000).smallest, 4'000U);
  const Ranges few = ranges_of(100, 101);
  EXPECT_EQ(few.calls, 1U);
  EXPECT_TRUE(few.threads.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace loch
