// Reads the CPUs and NUMA nodes of a machine from hwloc.
#include "common/placement/machine.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>

namespace loch::placement {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

std::vector<hwloc_obj_t> objects(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> all;
  for (hwloc_obj_t each = nullptr; (each = hwloc_get_next_obj_by_type(topology, type, each)) != nullptr;)
    all.push_back(each);
  return all;
}

// The CPU's own NUMA node: of those that contain the CPU the one with the fewest CPUs, and of several such
// nodes the first. HBM that a CPU has beside its DRAM is a NUMA node of its own, with at least as many CPUs
// as the DRAM's node, and with a higher number.
std::uint32_t numa_node_of(hwloc_obj_t cpu, const std::vector<hwloc_obj_t>& nodes) {
  hwloc_obj_t best = nullptr;
  for (hwloc_obj_t node : nodes) {
    if (hwloc_bitmap_isset(node->cpuset, cpu->os_index) == 0) continue;
    if (best == nullptr || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(best->cpuset)) best = node;
  }
  return best == nullptr ? 0 : best->os_index;
}

void read_latencies(hwloc_topology_t topology, const std::vector<hwloc_obj_t>& nodes, Machine& machine) {
  unsigned found = 1;
  hwloc_distances_s* matrix = nullptr;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &found, &matrix,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      found == 0)
    return;
  if (matrix->nbobjs == nodes.size()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t j = 0; j < nodes.size(); ++j) {
        hwloc_uint64_t there = 0, back = 0;
        if (hwloc_distances_obj_pair_values(matrix, nodes[i], nodes[j], &there, &back) == 0)
          machine.numa_nodes[i].latency.push_back(there);
      }
    }
  }
  hwloc_distances_release(topology, matrix);
}

Result<Machine> read(const std::string* synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return fail(ErrorCode::internal, "hwloc: no topology can be made");
  const Topology topology(made);
  // Caches and devices are not needed, and finding devices takes long.
  hwloc_topology_set_cache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (synthetic != nullptr && hwloc_topology_set_synthetic(made, synthetic->c_str()) != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("hwloc: \"{}\" does not describe a machine", *synthetic));
  if (hwloc_topology_load(made) != 0)
    return fail(ErrorCode::internal, "hwloc: the machine's topology cannot be read");
  std::vector<hwloc_obj_t> nodes = objects(made, HWLOC_OBJ_NUMANODE);
  std::ranges::sort(nodes, {}, [](hwloc_obj_t node) { return node->os_index; });
  Machine machine;
  for (hwloc_obj_t node : nodes) {
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(made, HWLOC_OBJ_PACKAGE, node);
    machine.numa_nodes.push_back({node->os_index, package == nullptr ? 0 : package->logical_index, {}});
  }
  read_latencies(made, nodes, machine);
  for (hwloc_obj_t cpu : objects(made, HWLOC_OBJ_PU)) {
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(made, HWLOC_OBJ_CORE, cpu);
    machine.cpus.push_back({cpu->os_index, core == nullptr ? cpu->logical_index : core->logical_index,
                            numa_node_of(cpu, nodes)});
  }
  std::ranges::sort(machine.cpus, {}, &Cpu::number);
  return machine;
}

}  // namespace

bool Machine::has_numa_node(std::uint32_t number) const {
  return std::ranges::find(numa_nodes, number, &NumaNode::number) != numa_nodes.end();
}

std::uint64_t Machine::distance(std::uint32_t from, std::uint32_t to) const {
  if (from == to) return 0;
  const auto one = std::ranges::find(numa_nodes, from, &NumaNode::number);
  const auto other = std::ranges::find(numa_nodes, to, &NumaNode::number);
  if (one == numa_nodes.end() || other == numa_nodes.end()) return ~std::uint64_t{0};
  const auto at = static_cast<std::size_t>(other - numa_nodes.begin());
  if (at < one->latency.size()) return one->latency[at];
  // If the firmware gives no latencies, a NUMA node of the same socket counts as nearer than a NUMA node of
  // another socket.
  return one->package == other->package ? 1 : 2;
}

Result<Machine> this_machine() { return read(nullptr); }

Result<Machine> synthetic_machine(const std::string& description) { return read(&description); }

}  // namespace loch::placement
