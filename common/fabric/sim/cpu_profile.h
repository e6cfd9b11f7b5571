// The constants of a node's processor, its kernel's scheduler and its power draw: a part of the hardware
// profile (hardware.h). The YAML files in experiments/hardware give each constant its source; the defaults
// here describe the machine of Nessie 2017, section 6 (two E5-2620 v2, Linux 3.13).
#pragma once

#include <cstdint>

namespace loch::fabric::sim {

constexpr std::uint32_t most_cores = 128;  // hardware threads of a node, at most

// The node's cores, and the CPU time that protocol work takes on them.
struct CpuProfile {
  // cores: hardware threads of the node, at most `most_cores` (the operating system calls them CPUs, this
  // model cores), numbered socket by socket. sockets: number of its processor sockets.
  std::uint32_t cores = 1, sockets = 1;
  // physical cores that the hardware threads share; 0: each has one of its own
  std::uint32_t physical_cores = 0;
  // bytes of the last-level cache of a processor socket, where the NIC finds words that it updates; 0:
  // unknown
  std::uint64_t last_level_cache_bytes = 0;
  // By what fraction the CPU time of work grows with the busy hardware threads of the node: by shared_growth
  // when one hardware thread of each physical core is busy, and by sibling_growth more when all are.
  double shared_growth = 0, sibling_growth = 0;
  double post_ns = 0;           // CPU time to build one work request
  double post_recv_ns = 0;      // CPU time to build one RECV work request and ring its doorbell
  double doorbell_ns = 0;       // CPU time to ring a doorbell: one uncached store
  double write_combine_ns = 0;  // CPU time for each 64-byte line that is written by MMIO
  double poll_ns = 0;        // from a completion's or word's arrival in memory until the polling code sees it
  double completion_ns = 0;  // CPU time to handle one completion
  double hash_fixed_ns = 0, hash_byte_ns = 0;
  double compare_fixed_ns = 0, compare_byte_ns = 0;
  double copy_fixed_ns = 0, copy_byte_ns = 0;
  double crc_byte_ns = 0;
  double memory_ns = 0;  // time of a random access to memory that nothing prefetched
  double line_ns = 0;    // time to fetch a cache line that another core has changed
  // fixed CPU time of one operation of the key-value store: setting up the request, drawing the key
  double operation_ns = 0;
  // time in ns of one SHA-256 of a small buffer; background workers compute nothing else
  double background_hash_ns = 500;
};

// A Linux scheduler of fair slices. The defaults are kernel 3.13 at 250 Hz on 8 or more cores: the tunables
// of kernel/sched/fair.c times 1 + log2(min(cores, 8)) = 4.
//
// Kernels from 6.6 on run the thread with the earliest eligible virtual deadline first. A base slice of 3 ms
// (0.75 ms times 4) approximates such a kernel: slices of one base slice whatever the number of threads (so
// one tick of 4 ms for two pollers), no credit for sleepers, and a waking thread preempts only a thread that
// is a slice ahead (experiments/hardware/connectx6-100g.yaml).
struct SchedulerProfile {
  double tick_ms = 4;      // period of the scheduler's tick; time slices end only at ticks
  double latency_ms = 24;  // target period in which each runnable thread runs once
  // shortest time slice; if latency_ms divided by the number of threads is below it, the period becomes
  // longer
  double minimum_granularity_ms = 3;
  // a waking thread preempts the running thread if the running thread has had this much more run time (ms)
  double wakeup_granularity_ms = 4;
  // When a thread wakes, its virtual run time is raised to at least the lowest virtual run time on its core
  // minus this credit (ms).
  double sleeper_credit_ms = 12;
  double migration_cost_ms = 0.5;  // a thread that ran within this time has a warm cache and is not moved
  // A busy core pulls threads from a group of cores whose load is more than this percentage of its own
  // group's load.
  double imbalance_percent = 125;
  // first and longest interval between the balancings of an idle core
  double balance_idle_ms = 1, balance_idle_most_ms = 4;
  // First interval between the balancings of a busy core; its longest interval is balance_idle_most_ms /
  // balance_idle_ms times as long.
  double balance_busy_ms = 64;
  double max_pull = 32;  // upper bound of the threads that one run of the load balancing examines
  // Time from a thread's wake-up to its first instruction on an idle core, without the exit from the idle
  // state.
  double wakeup_us = 0;
  double context_switch_us = 1.5;  // time of a switch from one thread to another on a core
};

// An idle state of a core. The core spends an idle period in the deepest state whose residency is not longer
// than the period, as if the kernel knew beforehand how long the period will be.
struct IdleState {
  double residency_us = 0;    // shortest idle period for which the kernel chooses this state
  double exit_us = 0;         // time to leave the state, in which the core draws the power of a busy core
  double power_fraction = 1;  // fraction of core_busy_w that the idle state draws
};
constexpr std::uint32_t idle_states = 4;

// Power draw of a node in watts. A machine is measured only when idle and when fully loaded. core_busy_w is
// the difference of these two measurements, less what the other constants explain, divided by the number of
// cores.
struct PowerProfile {
  double idle_w = 0;              // the whole node while no thread runs and the NIC's link is up
  double core_busy_w = 0;         // power of a busy core minus that of a core in its deepest idle state
  double core_wake_j = 0;         // energy of one wake-up without the energy of leaving the idle state
  double package_active_w = 0;    // power of a socket's uncore while any of the socket's cores is awake
  double package_sleep_us = 100;  // idle time of all cores of a package after which the package sleeps
  double nic_byte_nj = 0;         // energy in nJ of each byte on the wire, sent or received
  double nic_busy_w = 0;          // power of the NIC at its full rate minus the power of the idle NIC
  // The idle states C1, C1E, C3 and C6, with the times of the kernel's intel_idle table for Ivy Bridge-EP.
  IdleState idle[idle_states] = {{1, 1, 0.45}, {80, 10, 0.3}, {156, 59, 0.1}, {300, 82, 0}};
};

}  // namespace loch::fabric::sim
