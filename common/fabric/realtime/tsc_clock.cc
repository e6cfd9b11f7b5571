// Compares the time-stamp counter with CLOCK_MONOTONIC, and derives the counter's rate.
#include "common/fabric/realtime/tsc_clock.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace loch::fabric::realtime {
namespace {

// A sample that took more ticks than this was interrupted, and is taken again.
constexpr std::uint64_t ticks_per_sample_max = 1'000;
constexpr int samples_max = 8;
// Time over which the rate of a TickLine is measured. A sample is right within some 20 ns, a millionth of
// this.
constexpr std::chrono::milliseconds baseline_of_line{20};

Nanos monotonic() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

}  // namespace

bool kernel_trusts_ticks() {
#if defined(__x86_64__)
  static const bool trusts = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string source;
    return static_cast<bool>(file >> source) && source == "tsc";
  }();
  return trusts;
#else
  return false;
#endif
}

// Reads CLOCK_MONOTONIC between two readings of the time-stamp counter. Of several tries the one that took
// the fewest ticks counts.
TscClock::Sample TscClock::sample() {
  Sample best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < samples_max && least > ticks_per_sample_max; ++i) {
    const std::uint64_t before = read_ticks();
    const Nanos ns = monotonic();
    const std::uint64_t took = read_ticks() - before;
    if (took >= least) continue;
    least = took;
    best = {before + took / 2, ns};
  }
  return best;
}

TickLine TickLine::measure() {
  if (!kernel_trusts_ticks()) return {};
  const TscClock::Sample begin = TscClock::sample();
  std::this_thread::sleep_for(baseline_of_line);
  const TscClock::Sample end = TscClock::sample();
  if (end.ticks <= begin.ticks || end.ns <= begin.ns) return {};
  const auto span = static_cast<unsigned __int128>(end.ns - begin.ns);
  const auto rate = static_cast<std::uint64_t>((span << TscClock::rate_bits) / (end.ticks - begin.ticks));
  // A counter of less than 1 GHz would have a rate of more than 32 bits, for which read() has no room.
  if (rate >> TscClock::rate_bits != 0) return {};
  return {begin.ticks, begin.ns, rate};
}

void TscClock::follow(const TickLine& line) {
  follows_line_ = true;
  from_ticks_ = line.ticks;
  from_ns_ = line.ns;
  rate_ = line.rate;
  valid_ticks_ = std::uint64_t{1} << rate_bits;  // up to here the product in read() stays below 2^64
}

// 2^32 ticks are exactly `rate_` nanoseconds, so that clocks with different origins return the same times.
Nanos TscClock::move_origin() {
  const std::uint64_t elapsed = read_ticks() - from_ticks_;
  // A counter behind the origin is that of another core, by less than the kernel cares about.
  if (static_cast<std::int64_t>(elapsed) < 0) return from_ns_;
  from_ns_ += static_cast<Nanos>((elapsed >> rate_bits) * rate_);
  from_ticks_ += elapsed >> rate_bits << rate_bits;
  const std::uint64_t rest = elapsed & (valid_ticks_ - 1);
  return from_ns_ + static_cast<Nanos>((rest * rate_) >> rate_bits);
}

Nanos TscClock::compare() {
  if (follows_line_) return move_origin();
  if (!by_ticks_) return monotonic();
  const Sample seen = sample();
  // The clock must not go back behind the latest time that it returned, which may be up to `valid_ticks_`
  // after the previous comparison.
  const std::uint64_t elapsed = std::min(seen.ticks - from_ticks_, valid_ticks_);
  from_ns_ = std::max(seen.ns, from_ns_ + static_cast<Nanos>((elapsed * rate_) >> rate_bits));
  from_ticks_ = seen.ticks;
  if (first_.ticks == 0) first_ = renewed_ = seen;
  if (seen.ns - renewed_.ns >= baseline_ns) {
    first_ = renewed_;
    renewed_ = seen;
  }
  const std::uint64_t ticks = seen.ticks - first_.ticks;
  const auto baseline = static_cast<std::uint64_t>(seen.ns - first_.ns);
  // the time between the two samples is too short to derive the counter's rate from
  if (baseline < static_cast<std::uint64_t>(valid_ns) || ticks == 0) return from_ns_;
  const auto rate =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(baseline) << rate_bits) / ticks);
  valid_ticks_ = (static_cast<std::uint64_t>(valid_ns) << rate_bits) / std::max<std::uint64_t>(rate, 1);
  // If this clock is ahead of CLOCK_MONOTONIC, it runs slower, so that both agree at the next comparison.
  const auto ahead = static_cast<std::uint64_t>(std::min(from_ns_ - seen.ns, valid_ns / 2));
  rate_ = rate - rate * ahead / static_cast<std::uint64_t>(valid_ns);
  return from_ns_;
}

}  // namespace loch::fabric::realtime
