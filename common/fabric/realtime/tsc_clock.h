// A clock that computes CLOCK_MONOTONIC from the processor's time-stamp counter: a dozen instructions instead
// of a call of clock_gettime (25 ns). It is compared with CLOCK_MONOTONIC every millisecond, so that the two
// differ by no more than the kernel's corrections in that time.
//
// The counter is used only if the kernel itself uses it as the clock source, which requires that the counters
// of all cores agree and run at one constant rate. Otherwise now() reads CLOCK_MONOTONIC.
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

// Whether the kernel uses the time-stamp counter as its clock source (/sys/devices/system/clocksource).
[[nodiscard]] bool kernel_trusts_ticks();

// Each thread needs a TscClock of its own.
class TscClock {
 public:
  // Upper bound in ns of the difference between now() and CLOCK_MONOTONIC: the two are compared every
  // millisecond, in which the kernel corrects its clock by at most 500 ns.
  static constexpr Nanos error_ns_max = 1'000;

  // `by_ticks`: use the time-stamp counter; if false, now() reads CLOCK_MONOTONIC each time.
  explicit TscClock(bool by_ticks) : by_ticks_(by_ticks) {}

  // Returns CLOCK_MONOTONIC in nanoseconds. The time never goes back.
  [[nodiscard]] Nanos now() {
    Nanos at = 0;
    return read(at) ? at : compare();
  }
  // Sets `at` to now() and returns true, unless now() has to compare the two clocks, which takes long.
  [[nodiscard]] bool read(Nanos& at) const {
    const std::uint64_t elapsed = read_ticks() - from_ticks_;
    if (elapsed >= valid_ticks_) [[unlikely]]
      return false;
    at = from_ns_ + static_cast<Nanos>((elapsed * rate_) >> rate_bits);
    return true;
  }

 private:
  // Rates are nanoseconds per tick, in units of 2^-rate_bits. The product of elapsed ticks (2 ms at 5 GHz are
  // 2^24) and a rate of up to 32 ns per tick (2^5 · 2^rate_bits) stays below 2^64.
  static constexpr int rate_bits = 32;
  static constexpr Nanos valid_ns = 1'000'000;  // time in ns after which the two clocks are compared again
  static constexpr Nanos baseline_ns = 500'000'000;  // the rate is measured over the last 0.5 to 1 s
  struct Sample {
    std::uint64_t ticks = 0;
    Nanos ns = 0;
  };
  [[nodiscard]] static Sample sample();
  Nanos compare();

  std::uint64_t from_ticks_ = 0;
  // time-stamp ticks until this clock is compared with CLOCK_MONOTONIC again; 0: the counter's rate is
  // unknown
  std::uint64_t valid_ticks_ = 0;
  std::uint64_t rate_ = 0;
  Nanos from_ns_ = 0;
  bool by_ticks_;
  // samples at which the present interval for measuring the rate began, and at which the next one will begin
  Sample first_, renewed_;
};

}  // namespace loch::fabric::realtime
