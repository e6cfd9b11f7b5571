// CLOCK_MONOTONIC read off the processor's time-stamp counter: a dozen instructions instead of a call into
// the kernel's page (25 ns). The counter is compared with CLOCK_MONOTONIC every few milliseconds, so that the
// two never differ by more than what the kernel corrects its clock by in that time.
//
// Only where the kernel itself keeps time by the counter, which it does after it has seen that the counters
// of all cores run at one constant rate and agree; elsewhere now() reads CLOCK_MONOTONIC.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "common/base/units.h"

namespace loch::fabric::realtime {

// The time-stamp counter; 0 on processors that have none.
[[nodiscard]] inline std::uint64_t read_ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

// The counter is this machine's clock source, as /sys/devices/system/clocksource says.
[[nodiscard]] bool kernel_trusts_ticks();

// For one thread.
class TscClock {
 public:
  // By how much now() may differ from CLOCK_MONOTONIC: the kernel corrects by at most 500 ns a millisecond.
  static constexpr Nanos error_ns_max = 1'000;

  // `by_ticks`: false reads CLOCK_MONOTONIC each time.
  explicit TscClock(bool by_ticks) : by_ticks_(by_ticks) {}

  // CLOCK_MONOTONIC in nanoseconds. Never less than what it said before.
  [[nodiscard]] Nanos now() {
    const std::uint64_t elapsed = read_ticks() - from_ticks_;
    if (elapsed < valid_ticks_) [[likely]]
      return from_ns_ + static_cast<Nanos>((elapsed * rate_) >> rate_bits);
    return compare();
  }

 private:
  // Nanoseconds a tick, in units of 2^-rate_bits: `elapsed` ticks of 2 ms at 5 GHz (2^24) times a rate of up
  // to 32 ns a tick (2^5 · 2^rate_bits) stay below 2^64.
  static constexpr int rate_bits = 32;
  static constexpr Nanos valid_ns = 1'000'000;       // after so long the clocks are compared again
  static constexpr Nanos baseline_ns = 500'000'000;  // the rate is that of the last 0.5 to 1 s
  struct Sample {
    std::uint64_t ticks = 0;
    Nanos ns = 0;
  };
  [[nodiscard]] static Sample sample();
  Nanos compare();

  std::uint64_t from_ticks_ = 0;
  std::uint64_t valid_ticks_ = 0;  // 0: the rate is not known yet
  std::uint64_t rate_ = 0;
  Nanos from_ns_ = 0;
  bool by_ticks_;
  Sample first_, renewed_;  // where the rate's baseline begins, and where the next one will
};

}  // namespace loch::fabric::realtime
