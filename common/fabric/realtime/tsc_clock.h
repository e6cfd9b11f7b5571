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

// A linear function from the time-stamp counter to nanoseconds, fixed once for all workers of a process, so
// that their times are in one order: two clocks of this function never differ, as each worker's comparisons
// with CLOCK_MONOTONIC would make them. Against CLOCK_MONOTONIC the function drifts by the error of its rate,
// some millionths.
struct TickLine {
  std::uint64_t ticks = 0;  // a reading of the counter, and
  Nanos ns = 0;             // CLOCK_MONOTONIC at that reading
  std::uint64_t rate = 0;   // nanoseconds per tick, in units of 2^-32; 0: no function is set

  [[nodiscard]] bool is_set() const { return rate != 0; }
  // Measures the function, which takes 20 ms; not set if the kernel does not trust the counter.
  [[nodiscard]] static TickLine measure();
  [[nodiscard]] Nanos at(std::uint64_t reading) const {
    return ns + static_cast<Nanos>((static_cast<unsigned __int128>(reading - ticks) * rate) >> 32);
  }
};

// Each thread needs a TscClock of its own.
class TscClock {
 public:
  // Upper bound in ns of the difference between now() and CLOCK_MONOTONIC: the two are compared every
  // millisecond, in which the kernel corrects its clock by at most 500 ns.
  static constexpr Nanos error_ns_max = 1'000;

  // `by_ticks`: use the time-stamp counter; if false, now() reads CLOCK_MONOTONIC each time.
  explicit TscClock(bool by_ticks) : by_ticks_(by_ticks) {}
  // If `line` is set, now() returns line.at() of the counter and never looks at CLOCK_MONOTONIC.
  TscClock(bool by_ticks, const TickLine& line) : TscClock(by_ticks) {
    if (line.is_set()) follow(line);
  }

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
  friend struct TickLine;
  [[nodiscard]] static Sample sample();
  void follow(const TickLine& line);
  // Moves the origin of a clock that follows a line forward by whole multiples of 2^32 ticks.
  Nanos move_origin();
  Nanos compare();

  std::uint64_t from_ticks_ = 0;
  // time-stamp ticks until this clock is compared with CLOCK_MONOTONIC again; 0: the counter's rate is
  // unknown
  std::uint64_t valid_ticks_ = 0;
  std::uint64_t rate_ = 0;
  Nanos from_ns_ = 0;
  bool by_ticks_;
  bool follows_line_ = false;  // now() is a TickLine, given by from_ticks_, from_ns_ and rate_
  // samples at which the present interval for measuring the rate began, and at which the next one will begin
  Sample first_, renewed_;
};

}  // namespace loch::fabric::realtime
