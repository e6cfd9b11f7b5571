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

// The nodes on this machine if one process has all nodes (`ranks` 1), or if each process on shm has one node.
[[nodiscard]] HostNodes nodes_of_one_machine(const BenchOptions& options, std::uint32_t rank,
                                             std::uint32_t ranks);
// The nodes on the machine of process `rank` among several on verbs or ofi, found by the host names of
// `devices`. If `devices` lacks the other processes' devices, as after a restart, the launcher's `rank_here`
// and `ranks_here` are used, and every other node is taken to have as many workers as the largest node.
[[nodiscard]] HostNodes nodes_of_this_host(const BenchOptions& options,
                                           const std::vector<fabric::NodeDevice>& devices, std::uint32_t rank,
                                           std::uint32_t rank_here, std::uint32_t ranks_here);

// The CPUs and NUMA nodes that were planned. If workers are not pinned, `plans` is empty and `reason` says
// why.
struct Placing {
  HostNodes host;
  std::vector<placement::NodePlan> plans;  // one plan for each of host.nodes
  std::string reason;
  std::optional<std::uint32_t> nic_numa_node;

  [[nodiscard]] bool is_pinned() const { return !plans.empty(); }
  // CPUs of this process's workers, in the order in which the load driver adds these workers to the fabric.
  [[nodiscard]] std::vector<std::uint32_t> own_cpus() const;
  // For each node number up to this process's last node: the NUMA node of that node's memory. Only the
  // entries from `first_node` on, this process's own, have a meaning. Empty if workers are not pinned.
  [[nodiscard]] std::vector<std::uint32_t> memory_numa_nodes(std::uint32_t first_node) const;
};

// Plans CPUs for the workers and NUMA nodes for the memory, from the machine's topology and the CPUs that
// this process may use. If that is impossible, as with fewer CPUs than workers, returns leave_unpinned().
[[nodiscard]] Result<Placing> place_workers(const BenchOptions& options, HostNodes host,
                                            std::optional<std::uint32_t> nic_numa_node);
// A result without pinned workers, for the given reason. Fails if --pin was given, or if --hog-pin places
// background workers relative to pinned workers.
[[nodiscard]] Result<Placing> leave_unpinned(const BenchOptions& options, HostNodes host, std::string reason);

// The cores of this machine that background workers are pinned to; empty: not pinned.
[[nodiscard]] Result<std::vector<std::uint32_t>> background_cores(const BenchOptions& options,
                                                                  const Placing& placing);

// A caveat for the result of a simulated run in which a node has more workers than `cores`, and not because
// background workers were asked for: workers then take turns, and the measured rates depend on the
// scheduler's time slices. Empty otherwise.
[[nodiscard]] std::string name_crowding(const BenchOptions& options, std::uint32_t cores);

// This process's entry of the result's `placement` (docs/formats.md). `counters` are those of the fabric's
// report, `first_node` is this process's first node.
[[nodiscard]] nlohmann::ordered_json to_json(const Placing& placing, const BenchOptions& options,
                                             std::uint32_t first_node,
                                             const std::map<std::string, double>& counters);

}  // namespace loch::cli
