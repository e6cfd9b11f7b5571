// Tests that the clock by the time-stamp counter keeps to CLOCK_MONOTONIC.
#include "common/fabric/realtime/tsc_clock.h"

#include <gtest/gtest.h>
#include <time.h>

#include <thread>

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

}  // namespace
}  // namespace loch::fabric::realtime
