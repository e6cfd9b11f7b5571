// This machine's memory as a fabric, in real time: nodes are threads of one process, or processes
// that share POSIX shared memory (one node a process, under mpirun). One-sided operations are done
// by the issuing thread.
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
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> make_shm(const ShmConfig& config);

}  // namespace loch::fabric::shm
