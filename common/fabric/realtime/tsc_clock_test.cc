// Tests that the clock by the time-stamp counter keeps to CLOCK_MONOTONIC.
#include "common/fabric/realtime/tsc_clock.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "common/base/clock_fence.h"

namespace loch::fabric::realtime {
namespace {

Nanos monotonic() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

// Reads the clock for `span` ns, with occasional pauses, and checks how far it is from CLOCK_MONOTONIC.
void keeps_to_monotonic(bool by_ticks, Nanos span) {
  TscClock clock(by_ticks);
  const Nanos end = monotonic() + span;
  Nanos before = 0;
  for (std::uint64_t i = 0; monotonic() < end; ++i) {
    const Nanos least = monotonic();
    const Nanos said = clock.now();
    const Nanos most = monotonic();
    ASSERT_GE(said, least - TscClock::error_ns_max) << "after " << i;
    ASSERT_LE(said, most + TscClock::error_ns_max) << "after " << i;
    ASSERT_GE(said, before) << "after " << i;
    before = said;
    if (i % 50'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

TEST(TscClock, KeepsToMonotonic) {
  if (!kernel_trusts_ticks()) GTEST_SKIP() << "this machine's clock source is not the time-stamp counter";
  // 1.5 s is longer than the interval at which the clock measures the counter's rate anew, 0.5 s
  keeps_to_monotonic(true, 1'500'000'000);
}

TEST(TscClock, ReadsMonotonicWhereTicksAreNotTrusted) { keeps_to_monotonic(false, 20'000'000); }

TEST(TscClock, GoesOnAfterALongPause) {
  TscClock clock(kernel_trusts_ticks());
  for (int i = 0; i < 20; ++i) {
    const Nanos least = monotonic();
    const Nanos said = clock.now();
    EXPECT_GE(said, least - TscClock::error_ns_max);
    EXPECT_LE(said, monotonic() + TscClock::error_ns_max);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Clocks of one line return what the line returns, wherever their origins have moved.
TEST(TscClock, FollowsALine) {
  const TickLine line = TickLine::measure();
  if (!kernel_trusts_ticks()) {
    EXPECT_FALSE(line.is_set());
    GTEST_SKIP() << "this machine's clock source is not the time-stamp counter";
  }
  ASSERT_TRUE(line.is_set());
  EXPECT_NEAR(static_cast<double>(line.at(read_ticks())), static_cast<double>(monotonic()), 100'000);
  for (const std::uint64_t before : {std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{3} << 35}) {
    TickLine old = line;
    old.ticks -= before + 12'345;
    TscClock first(true, old), second(true, old);
    for (int i = 0; i < 100'000; ++i) {
      const Nanos least = old.at(read_ticks());
      const Nanos one = first.now();
      const Nanos other = i % 100 == 0 ? TscClock(true, old).now() : second.now();
      const Nanos most = old.at(read_ticks());
      ASSERT_LE(least, one);
      ASSERT_LE(one, other);
      ASSERT_LE(other, most);
    }
  }
}

// What one worker's clock said before it told another, the other's clock does not say again.
TEST(TscClock, ThreadsOfOneLineAgreeOnTheOrder) {
  const TickLine line = TickLine::measure();
  if (!line.is_set()) GTEST_SKIP() << "this machine's clock source is not the time-stamp counter";
  std::atomic<Nanos> told = 0;
  std::atomic<bool> is_over = false;
  std::uint64_t seen = 0;
  std::jthread teller([&] {
    TscClock clock(true, line);
    while (!is_over) {
      fence_clock();
      told.store(clock.now(), std::memory_order_release);
    }
  });
  TscClock clock(true, line);
  const Nanos end = monotonic() + 200'000'000;
  while (monotonic() < end || (seen < 1'000 && monotonic() < end + 5'000'000'000)) {
    const Nanos before = told.load(std::memory_order_acquire);
    fence_clock();
    const Nanos now = clock.now();
    if (now < before) {
      is_over = true;
      FAIL() << "the other thread was told " << before << " before, and now it is " << now;
    }
    seen += before != 0 ? 1 : 0;
  }
  is_over = true;
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace loch::fabric::realtime
