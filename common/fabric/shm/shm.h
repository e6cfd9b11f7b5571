// This machine's memory as a fabric, in real time: nodes are threads of one process, or processes
// that share POSIX shared memory (one node a process, under mpirun). One-sided operations are done
// by the issuing thread.
//
// A worker that polls burns its core. When more workers run than there are cores, one gives its core
// up after 64 fruitless turns: by sched_yield; after 20,000 of them, or where other programs keep the core
// for long after a yield, by sleeping until its doorbell rings (doorbell.h): this device's completion
// moderation. The report counts both ("shm.yields", "shm.sleeps"; "shm.crowded").
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::shm {

struct ShmConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  // One process: ranks = 1 and every node is local. Several: ranks == nodes, this process hosts
  // node `rank`, and `job` names what they share (the same text in all, unique on the machine).
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string job;
  bool pin_threads = false;
  // Workers read CLOCK_MONOTONIC itself, and not a clock within a microsecond of it: what several of them
  // wrote down is put in one order.
  bool exact_clock = true;
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> make_shm(const ShmConfig& config);

// For the supervisor of a rank whose process was killed and reaped (cluster/supervise.h), so that
// nothing of it runs any more: marks the node lost and removes what it left in shared memory, the
// job's control block too when it was the last one. After the exchange nothing of the job has a name,
// and the others find out by themselves, within 50 ms. They go on without it: barriers
// and gathering leave it out, RC SENDs to it fail, and its memory stays readable and writable, as
// that of a machine whose process died does through its NIC.
void mark_lost(const std::string& job, std::uint32_t rank);
// Removes the shared memory of jobs of this user none of whose processes is alive; make_shm does it
// in rank 0. Returns of how many jobs.
std::uint32_t remove_stale_jobs();

}  // namespace loch::fabric::shm
