// The CPUs and NUMA nodes of a machine, as hwloc finds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace loch::placement {

// A hardware thread. All numbers but `core` are the kernel's.
struct Cpu {
  std::uint32_t number = 0;
  std::uint32_t core = 0;  // physical core, counted from 0 over the machine; hyper-threads of a core share it
  std::uint32_t numa_node = 0;
  bool operator==(const Cpu&) const = default;
};

struct NumaNode {
  std::uint32_t number = 0;
  std::uint32_t package = 0;  // the socket that the NUMA node belongs to
  // Latency from this NUMA node to each NUMA node, in the order of Machine::numa_nodes; empty if the firmware
  // does not tell.
  std::vector<std::uint64_t> latency;
};

struct Machine {
  std::vector<Cpu> cpus;             // ascending by number
  std::vector<NumaNode> numa_nodes;  // ascending by number; at least one

  // How far CPUs of NUMA node `from` are from memory of NUMA node `to`: 0 for the same node. Comparable
  // within a machine only. The largest number if either is no NUMA node of the machine.
  [[nodiscard]] std::uint64_t distance(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] bool has_numa_node(std::uint32_t number) const;
};

// The machine that this process runs on, or the one that the variable HWLOC_SYNTHETIC describes. Any thread
// may call it; it takes some milliseconds.
[[nodiscard]] Result<Machine> this_machine();

// The machine that a text in hwloc's synthetic format describes, such as "Package:2 [NUMANode] Core:8 PU:2".
[[nodiscard]] Result<Machine> synthetic_machine(const std::string& description);

}  // namespace loch::placement
