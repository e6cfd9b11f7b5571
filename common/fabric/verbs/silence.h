// Measures for how long a NIC has given no completion although requests are outstanding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::verbs {

// The longest time in ns for which a NIC may give no completion, if a request ends within `request_lifetime`.
// At least 20 s.
constexpr Nanos silence_most(Nanos request_lifetime) {
  return std::max<Nanos>(2 * request_lifetime, 20'000'000'000);
}

// Tells when a NIC has given no completion for too long; a NIC completes every request, with success or an
// error, within its time-outs and retries. Of the time between two readings of the clock at most one second
// counts, so that the NIC is not blamed for a time in which the process was stopped or had no core.
class Silence {
 public:
  explicit Silence(Nanos most) : most_(most) {}
  // Measures the silence (the time without a completion); to be called when requests await their completions
  // and a poll found none. `now` gives the time in ns. Returns whether the silence has lasted too long.
  template <typename Now>
  [[nodiscard]] bool is_over(Now now) {
    if (++polls_ % polls_per_look != 0) return false;
    const Nanos at = now();
    if (polls_ != polls_per_look) lasted_ += std::clamp<Nanos>(at - looked_, 0, step_most);
    looked_ = at;
    return lasted_ > most_;
  }
  // Ends the silence (the time without a completion); to be called when a poll found a completion.
  void end() {
    polls_ = 0;
    lasted_ = 0;
  }
  static constexpr std::uint32_t polls_per_look = 1024;

 private:
  static constexpr Nanos step_most = 1'000'000'000;
  Nanos most_, looked_ = 0, lasted_ = 0;
  std::uint64_t polls_ = 0;
};

}  // namespace loch::fabric::verbs
