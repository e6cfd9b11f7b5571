// Which core each worker is pinned to.
#pragma once

#include <cstdint>
#include <vector>

namespace loch::workloads {

struct Pinning {
  std::vector<std::uint32_t> cores;  // those that workers may have; empty: nobody is pinned
  // Every node has these cores to itself (sim); else all nodes of this process, and of others on this
  // machine, share them, and no two workers get the same before each has one.
  bool is_of_each_node = false;
  std::uint32_t first = 0;  // workers of other processes of this machine that come before this one's

  // The core of a worker that is the `number`-th of this process and has this index on its node; -1: any.
  [[nodiscard]] int core_of(std::uint32_t number, std::uint32_t index) const {
    if (cores.empty()) return -1;
    const std::uint32_t place = is_of_each_node ? index : first + number;
    return static_cast<int>(cores[place % cores.size()]);
  }
};

}  // namespace loch::workloads
