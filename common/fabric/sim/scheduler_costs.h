// The scheduling costs of a simulated node's cores: pure functions of the scheduler's constants
// (cpu_profile.h), like those of stage_costs.h for the NIC, the bus and the link. Times are nanoseconds. The
// table in docs/simulator.md is generated from these comments.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::sim {

// ---- The cores ------------------------------------------------------------------------------------

constexpr std::uint32_t unit_weight = 1024;  // weight of a thread with nice 0

// Virtual run time of a thread of load weight `weight` (1024 for nice 0) that ran for `span`; the scheduler
// keeps the virtual run times of all threads equal:
//   span · 1024/weight
// Source: Linux 3.13, kernel/sched/fair.c, calc_delta_fair.
[[nodiscard]] constexpr Nanos virtual_runtime(Nanos span, std::uint32_t weight) {
  return weight == unit_weight ? span : span * unit_weight / weight;
}

// Time slice of a thread of load weight `weight` on a core with n runnable threads, whose weights sum to
// `load`. All threads run once in a period of `latency` or, if there are many, of n times `granularity`:
//   period · weight/load, period = latency if n ≤ ⌊latency/granularity⌋, else n · granularity
// Source: Linux 3.13, kernel/sched/fair.c, sched_slice and __sched_period: latency 24 ms and granularity 3 ms
// on 8 and more cores.
[[nodiscard]] constexpr Nanos time_slice(Nanos latency, Nanos granularity, std::uint32_t runnable,
                                         std::uint64_t weight, std::uint64_t load) {
  const Nanos fits = latency / granularity;
  const Nanos period = runnable > fits ? granularity * runnable : latency;
  return period * static_cast<Nanos>(weight) / static_cast<Nanos>(load);
}

// Virtual run time of a thread that wakes up: its `own` one from before, but at most `credit` behind `least`,
// the lowest virtual run time of the core's threads:
//   max(own, least − credit)
// Source: Linux 3.13, kernel/sched/fair.c, place_entity: credit is half of latency.
[[nodiscard]] constexpr Nanos woken_runtime(Nanos own, Nanos least, Nanos credit) {
  return std::max(own, least - credit);
}

// Time from the choice of a thread until it runs on the core: t_switch (context_switch of the profile's
// scheduler) if another thread ran there before, and t_wakeup (wakeup of the profile) plus the exit time of
// the idle state if the core was idle:
//   (another one than before: t_switch) + (the core was idle: t_wakeup + exit of its idle state)
// Source: context_switch and wakeup of the profile's scheduler; idle states: the kernel's intel_idle for Ivy
// Bridge-EP.
[[nodiscard]] constexpr Nanos dispatch_time(bool is_other, Nanos context_switch, bool was_idle, Nanos wakeup,
                                            Nanos exit) {
  return (is_other ? context_switch : 0) + (was_idle ? wakeup + exit : 0);
}

// Factor on CPU time when `busy` hardware threads of a node with n physical cores run something; threads that
// are alone on their core share caches, memory and clock rate, and further threads share a core (a:
// cpu.shared_growth, b: cpu.sibling_growth):
//   1 + a · (min(busy, n)/n)² + b · max(busy − n, 0)/n
// Source: SMART's microbenchmarks with few outstanding requests (smart-micro-fig4-heatmap.csv): the rate of a
// thread falls by a tenth up to 48 threads, and by more beyond, where cores have two.
[[nodiscard]] constexpr double crowding(std::uint32_t busy, std::uint32_t cores, double a, double b) {
  const double alone = static_cast<double>(std::min(busy, cores)) / cores;
  const double beyond = static_cast<double>(busy - std::min(busy, cores)) / cores;
  return 1 + a * alone * alone + b * beyond;
}

// CPU time of work that takes `span` alone, with a factor of crowding():
//   span · factor, to the nearest nanosecond
// Source: as for crowding.
[[nodiscard]] constexpr Nanos crowded(Nanos span, double factor) {
  return static_cast<Nanos>(static_cast<double>(span) * factor + 0.5);
}

}  // namespace loch::fabric::sim
