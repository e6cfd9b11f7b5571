// What the cores of a simulated node cost the threads on them: pure functions of the scheduler's constants
// (cpu_profile.h), as stage_costs.h has them of the NIC, bus and link. Nanoseconds; docs/simulator.md has a
// table that is made of these comments.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::sim {

// ---- The cores ------------------------------------------------------------------------------------

constexpr std::uint32_t unit_weight = 1024;  // of a thread with nice 0

// How much a thread of this weight that ran for `span` has run in virtual time, which the scheduler keeps
// equal for all:
//   span · 1024/weight
// Source: Linux 3.13, kernel/sched/fair.c, calc_delta_fair.
[[nodiscard]] constexpr Nanos virtual_runtime(Nanos span, std::uint32_t weight) {
  return weight == unit_weight ? span : span * unit_weight / weight;
}

// A thread's slice on a core with n runnable threads of together `load`:
//   period · weight/load, period = latency if n ≤ ⌊latency/granularity⌋, else n · granularity
// Source: Linux 3.13, kernel/sched/fair.c, sched_slice and __sched_period: latency 24 ms and granularity 3 ms
// on 8 and more cores.
[[nodiscard]] constexpr Nanos time_slice(Nanos latency, Nanos granularity, std::uint32_t runnable,
                                         std::uint64_t weight, std::uint64_t load) {
  const Nanos fits = latency / granularity;
  const Nanos period = runnable > fits ? granularity * runnable : latency;
  return period * static_cast<Nanos>(weight) / static_cast<Nanos>(load);
}

// The virtual run time with which a thread that slept comes back, at most `credit` behind the others, of whom
// the one that has run least has `least`:
//   max(own, least − credit)
// Source: Linux 3.13, kernel/sched/fair.c, place_entity: credit is half of latency.
[[nodiscard]] constexpr Nanos woken_runtime(Nanos own, Nanos least, Nanos credit) {
  return std::max(own, least - credit);
}

// From the choice of a thread until it is on the core:
//   (another one than before: t_switch) + (the core was idle: t_wakeup + exit of its idle state)
// Source: context_switch and wakeup of the profile's scheduler; idle states: the kernel's intel_idle for Ivy
// Bridge-EP.
[[nodiscard]] constexpr Nanos dispatch_time(bool is_other, Nanos context_switch, bool was_idle, Nanos wakeup,
                                            Nanos exit) {
  return (is_other ? context_switch : 0) + (was_idle ? wakeup + exit : 0);
}

}  // namespace loch::fabric::sim
