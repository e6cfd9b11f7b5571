// Assigns workers to cores.
#pragma once

#include <cstdint>
#include <vector>

namespace loch::workloads {

struct Pinning {
  std::vector<std::uint32_t> cores;  // the cores that workers may use; empty: workers are not pinned
  // true: each node has all of `cores` to itself (sim). false: the nodes of all processes on this machine
  // share `cores`, and no core gets a second worker before each core has one.
  bool is_of_each_node = false;
  // number of workers of those processes on this machine that come before this process in the order of ranks
  std::uint32_t first = 0;

  // Returns the core of the process's `number`-th worker, which has the given index on its node; -1: not
  // pinned.
  [[nodiscard]] int core_of(std::uint32_t number, std::uint32_t index) const {
    if (cores.empty()) return -1;
    const std::uint32_t place = is_of_each_node ? index : first + number;
    return static_cast<int>(cores[place % cores.size()]);
  }
};

}  // namespace loch::workloads
