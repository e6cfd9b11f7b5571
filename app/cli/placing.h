// Decides on which CPUs the workers of a bench run are in real time, and where the memory of their nodes is.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/placement/plan.h"

namespace loch::cli {

// The nodes of the run that are on this machine, in the order of their numbers.
struct HostNodes {
  struct Node {
    std::uint32_t clients = 0, servers = 0;
  };
  std::vector<Node> nodes;
  std::uint32_t first = 0;  // index in `nodes` of this process's first node
  std::uint32_t own = 0;    // number of nodes of this process
  bool is_known = true;     // false: the launcher does not say which processes share the machine
};

// Of a process that has all nodes (ranks 1), or of a process on shm.
[[nodiscard]] HostNodes nodes_of_one_machine(const BenchOptions& options, std::uint32_t rank,
                                             std::uint32_t ranks);
// Of process `rank` among several on verbs, by the hosts of all devices. A process that was restarted knows
// its own device alone: `rank_here` and `ranks_here` are the launcher's word, and every node is taken to have
// the largest number of workers.
[[nodiscard]] HostNodes nodes_of_this_host(const BenchOptions& options,
                                           const std::vector<fabric::NodeDevice>& devices, std::uint32_t rank,
                                           std::uint32_t rank_here, std::uint32_t ranks_here);

// What the planning gave. `plans` is empty where workers are not pinned, and `reason` says why.
struct Placing {
  HostNodes host;
  std::vector<placement::NodePlan> plans;  // of all of host.nodes
  std::string reason;
  std::optional<std::uint32_t> nic_numa_node;

  [[nodiscard]] bool is_pinned() const { return !plans.empty(); }
  // CPUs of this process's workers, in the order in which the driver adds them.
  [[nodiscard]] std::vector<std::uint32_t> own_cpus() const;
  // NUMA nodes of the memory of all nodes of the run, by number; empty where workers are not pinned. Entries
  // of nodes on other machines or of other processes have no meaning. `first_node` is this process's first.
  [[nodiscard]] std::vector<std::uint32_t> memory_numa_nodes(std::uint32_t first_node) const;
};

// Plans for the machine's topology and the CPUs that this process may use. Fails if --pin was given and there
// are fewer CPUs than workers; without the flag workers are then not pinned.
[[nodiscard]] Result<Placing> place_workers(const BenchOptions& options, HostNodes host,
                                            std::optional<std::uint32_t> nic_numa_node);
// Of workers that are not pinned for the given reason; fails if the flags need them to be.
[[nodiscard]] Result<Placing> leave_unpinned(const BenchOptions& options, HostNodes host, std::string reason);

// The cores of this machine that background workers are pinned to; empty: not pinned.
[[nodiscard]] Result<std::vector<std::uint32_t>> background_cores(const BenchOptions& options,
                                                                  const Placing& placing);

// This process's entry of the result's `placement` (docs/formats.md). `counters` are those of the fabric's
// report, `first_node` is this process's first node.
[[nodiscard]] nlohmann::ordered_json to_json(const Placing& placing, const BenchOptions& options,
                                             std::uint32_t first_node,
                                             const std::map<std::string, double>& counters);

}  // namespace loch::cli
