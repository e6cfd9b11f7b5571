// The fabric shm: nodes are threads of one process, or processes that share POSIX shared memory on one
// machine (one node per process, under mpirun). It runs in real time. The issuing thread executes one-sided
// operations.
//
// A worker that polls occupies its core. Where more workers run than there are cores, a worker yields its
// core by sched_yield after 64 iterations of its polling loop that find nothing. After 20,000 such
// iterations, or where other programs keep the core for long after a yield, the worker sleeps until its
// doorbell rings (doorbell.h), which corresponds to a NIC's completion moderation. The report counts yields
// ("shm.yields") and sleeps ("shm.sleeps"), and says whether workers share cores ("shm.crowded").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::shm {

struct ShmConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  // One process: ranks = 1, and every node is local. Several processes: ranks == nodes, this process hosts
  // node `rank`, and `job` is the name of their shared state (the same in all of them, unique on the
  // machine).
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string job;
  bool pin_threads = false;
  // The NUMA node of the machine on which each node's regions are placed, by node; empty: wherever the kernel
  // puts them.
  std::vector<std::uint32_t> numa_nodes;
  // true: the times of all workers are in one order, as histories need: one process reads the time-stamp
  // counter by one function for all workers, if the kernel trusts it, else and in several processes workers
  // read CLOCK_MONOTONIC. false: each worker's time may be off by a microsecond (realtime/tsc_clock.h).
  bool exact_clock = true;
  // After the clients of some process have ended, the clients of other processes may run for another
  // laggards_most ns, or for as long again as the clients that have ended took, whichever is longer. Then
  // run() fails with timed_out and names the nodes that are late.
  Nanos laggards_most = 120'000'000'000;
  // the longest that a run may take in ns, with the same failure; 0: no limit
  Nanos run_most = 0;
  // If workers have not ended so many ns after the clients have, or were given up, the process ends with one
  // line that names them.
  Nanos ended_most = 20'000'000'000;
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> make_shm(const ShmConfig& config);

// The memory in bytes of the regions of an shm fabric with one process; nullopt: another fabric.
[[nodiscard]] std::optional<std::uint64_t> region_bytes(const Fabric& fabric);
// To be called in a process that was forked after exchange() and before run(), on a fabric of which
// region_bytes() is known: gives the process memory of its own, with the same bytes, so that neither side
// sees the other's stores and none waits for the kernel to copy a page (realtime::own_pages). Error:
// exhausted, if the machine has too little memory.
[[nodiscard]] Result<> own_memory(Fabric& fabric);

// To be called by the supervisor of a rank whose process was killed and reaped (cluster/supervise.h): marks
// the rank's node as lost and removes the rank's shared-memory objects, and the job's control block if it was
// the last rank. After Fabric::exchange() no object of the job has a name any more, and the other processes
// detect the death by themselves within 50 ms. The run continues without the node: barriers and gathering
// skip it and RC SENDs to it fail. Its memory stays readable and writable, like that of a machine whose
// process died while its NIC works.
void mark_lost(const std::string& job, std::uint32_t rank);
// Removes the shared memory of this user's jobs of which no process is alive; make_shm calls it in rank 0.
// Returns the number of jobs removed.
std::uint32_t remove_stale_jobs();

}  // namespace loch::fabric::shm
