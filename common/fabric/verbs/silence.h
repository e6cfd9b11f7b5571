// Notices that a NIC owes completions and gives none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::verbs {

// How long a NIC may be silent, in ns, if a request ends within `request_lifetime`: long enough for a
// connection that another process does not answer, too.
constexpr Nanos silence_most(Nanos request_lifetime) {
  return std::max<Nanos>(2 * request_lifetime, 20'000'000'000);
}

// A NIC completes every request, well or with an error, within its time-outs and retries. The time between
// two looks at the clock counts for at most a second, so that a process that was stopped, or that got no
// core, takes no silence for the NIC's.
class Silence {
 public:
  explicit Silence(Nanos most) : most_(most) {}
  // To be called when completions are owed and a poll found none; `now` gives the time in ns. Returns whether
  // the silence has lasted too long.
  template <typename Now>
  [[nodiscard]] bool is_over(Now now) {
    if (++polls_ % polls_per_look != 0) return false;
    const Nanos at = now();
    if (polls_ != polls_per_look) lasted_ += std::clamp<Nanos>(at - looked_, 0, step_most);
    looked_ = at;
    return lasted_ > most_;
  }
  // To be called when a poll found a completion.
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
