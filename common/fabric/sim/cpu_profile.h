// What the simulator knows of a node's processor, its kernel's scheduler and its power draw. Part of
// a hardware profile (hardware.h); the YAML files under experiments/hardware give each constant its
// source.
#pragma once

#include <array>
#include <cstdint>

#include "common/base/units.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::sim {

struct CpuProfile {
  std::uint32_t cores = 12;    // of the node, at most 64; numbered socket by socket
  std::uint32_t sockets = 2;   // cores of one socket share the last-level cache
  double ghz = 2.1;            // reported only: costs are in nanoseconds
  CpuCosts costs;              // what a protocol's own steps cost
  // SHA-256 of a small (64-byte) buffer: what a background hog does all day.
  double hog_hashes_per_s = 2.0e6;
};

// A Linux scheduler of fair slices. The defaults are kernel 3.13 (Ubuntu 14.04) on 8 or more cores:
// the tunables of kernel/sched/fair.c times 1 + ilog2(min(cores, 8)) = 4.
struct SchedulerProfile {
  Nanos tick = 4'000'000;                // 250 Hz; slices end on ticks only
  Nanos latency = 24'000'000;            // period in which each runnable thread runs once
  Nanos min_granularity = 3'000'000;     // least slice: the period grows beyond latency / this
  Nanos wakeup_granularity = 4'000'000;  // lead that a waking thread needs to preempt
  Nanos sleeper_credit = 12'000'000;     // how far behind the others a sleeper is placed at most
  bool new_thread_waits = true;          // a new thread starts one slice behind (START_DEBIT)
  Nanos migration_cost = 500'000;        // a thread that ran within this is hot
  Nanos switch_cost = 1'500;             // from one thread to another: registers, TLB, pipeline
  std::uint32_t imbalance_percent = 125; // of the busier group's load over the puller's
  std::array<Nanos, 2> balance_min = {1'000'000, 1'000'000};  // idle: within a socket; across
  std::array<Nanos, 2> balance_max = {4'000'000, 4'000'000};
  std::uint32_t busy_factor = 64;        // a busy core balances this many times less often
  std::uint32_t max_pull = 32;           // threads moved by one balancing at most
  std::uint32_t failures_before_hot = 1; // failed balancings after which hot threads move too
  std::uint32_t failures_before_active = 3;  // … after which a running thread is moved

  [[nodiscard]] static SchedulerProfile linux_3_13() { return {}; }
  // Kernels from 6.6 on schedule by earliest eligible virtual deadline. The same machinery with a
  // base slice of 3 ms (0.75 ms times 4) comes near where it matters here: slices of one base slice
  // whatever the number of threads (one tick of 4 ms for two pollers), no credit for sleepers, and
  // a waking thread that preempts only one which has used a slice up.
  [[nodiscard]] static SchedulerProfile linux_6_6() {
    SchedulerProfile profile;
    profile.latency = 3'000'000;
    profile.min_granularity = 3'000'000;
    profile.wakeup_granularity = 3'000'000;
    profile.sleeper_credit = 0;
    profile.new_thread_waits = true;
    profile.switch_cost = 1'000;
    profile.balance_max = {12'000'000, 24'000'000};
    profile.busy_factor = 16;
    profile.imbalance_percent = 117;
    return profile;
  }
};

// A core's idle state. An idle period is spent in the deepest state whose target residency it
// reaches (the governor is taken to know when the next timer fires).
struct IdleState {
  Nanos residency = 0;          // shortest idle period for which the kernel takes it
  Nanos exit_latency = 0;       // until the core runs again; at the power of a running core
  double power_fraction = 1.0;  // of core_active_w
};

// Watts of a node. Only idle_w and the sum at full load are measured on the paper's machines (81 and
// 139 W, Nessie 2017 section 6.3): core_active_w is what is left of their difference.
struct PowerProfile {
  double idle_w = 81.0;            // every core and package asleep, NIC up, fans
  double package_active_w = 9.0;   // a socket's uncore while any of its cores is awake
  double core_active_w = 3.25;     // a core that polls, computes or wakes, above its deepest sleep
  double nic_j_per_byte = 4.0e-10; // each wire byte, sent or received: 1 W at 10 Gbit/s both ways
  Nanos package_sleep_after = 100'000;  // all cores idle this long before the package sleeps
  // C1, C1E, C3, C6 of Ivy Bridge-EP: exit latencies and residencies of Linux' intel_idle.
  std::array<IdleState, 4> idle_states = {IdleState{1'000, 1'000, 0.45}, IdleState{80'000, 10'000, 0.30},
                                          IdleState{156'000, 59'000, 0.10}, IdleState{300'000, 82'000, 0.0}};

  // Sets core_active_w so that a node whose cores all run and whose NIC moves `nic_bytes_per_s`
  // (both directions together) draws `full_w`.
  void calibrate_full_load(double full_w, const CpuProfile& cpu, double nic_bytes_per_s) {
    core_active_w = (full_w - idle_w - package_active_w * cpu.sockets - nic_j_per_byte * nic_bytes_per_s) /
                    cpu.cores;
  }
};

}  // namespace loch::fabric::sim
