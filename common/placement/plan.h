// Plans on which CPU of a machine each worker runs, and on which NUMA node the memory of its store node is. A
// pure function of its arguments.
//
// A store node's workers take, in this order: cores on which nothing runs, those of the NIC's NUMA node first
// and then by distance from it; hyper-threads of the node's own cores; hyper-threads of other nodes' cores.
// Where all workers cannot have a core each, every store node first gets its share of the cores, so that two
// nodes share a core only if nothing else is left. The core of the lowest CPU, where a machine's interrupts
// usually arrive, is the last of its NUMA node to be taken: it is left for the rest of the system if there
// are more cores than workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/placement/machine.h"

namespace loch::placement {

struct Demand {
  std::vector<std::uint32_t> allowed;          // numbers of the CPUs that may be used
  std::optional<std::uint32_t> nic_numa_node;  // empty: unknown, so any NUMA node may be chosen
  std::vector<std::uint32_t> workers;          // number of workers of each store node on this machine
};

struct NodePlan {
  std::vector<Cpu> workers;  // the CPU of each worker, by its index on the store node
  // The NUMA node for the memory of the store node: the NIC's NUMA node or, if it is unknown, the NUMA node
  // of most workers.
  std::uint32_t memory_numa_node = 0;
};

// Returns the plan of each store node, in the order of Demand::workers. Equal arguments give equal plans, so
// that the processes of a machine can each compute the plan of all. Fails with invalid_argument if fewer CPUs
// are allowed than there are workers.
[[nodiscard]] Result<std::vector<NodePlan>> plan(const Machine& machine, const Demand& demand);

}  // namespace loch::placement
