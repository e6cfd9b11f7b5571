// The regions of a fabric's nodes, and what the fabrics of real time refuse in the same words while they are
// set up. Control path.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::fabric::realtime {

constexpr std::size_t region_name_most = 95;  // characters

// By node, and by id on it. `R` derives from Region.
template <typename R>
class Regions {
 public:
  explicit Regions(std::uint32_t nodes) : by_node_(nodes) {}
  // Null if the node has none of that name, or is none.
  [[nodiscard]] R* find(NodeId node, std::string_view name) const {
    if (node >= by_node_.size()) return nullptr;
    for (const auto& region : by_node_[node]) {
      if (region->name() == name) return region.get();
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<R>>& of(NodeId node) const { return by_node_[node]; }
  // The id of the next one.
  [[nodiscard]] std::uint32_t next_id(NodeId node) const {
    return static_cast<std::uint32_t>(by_node_[node].size());
  }
  R* add(std::unique_ptr<R> region) {
    LOCH_CHECK_EQ(region->id(), next_id(region->node()));
    return by_node_[region->node()].emplace_back(std::move(region)).get();
  }

 private:
  std::vector<std::vector<std::unique_ptr<R>>> by_node_;
};

// When a region is registered or a worker added.
struct Stage {
  bool is_local = false;  // the node is of this process
  bool is_exchanged = false;
};
// One line that names the region or worker, and says why not.
[[nodiscard]] std::unexpected<Error> refuse_region(NodeId node, const RegionSpec& spec, ErrorCode code,
                                                   std::string_view why);
[[nodiscard]] std::unexpected<Error> refuse_worker(const WorkerSpec& spec, ErrorCode code,
                                                   std::string_view why);
// Of a look-up.
[[nodiscard]] std::unexpected<Error> unknown_region(NodeId node, std::string_view region, bool is_exchanged);
// What is refused whatever the device says.
[[nodiscard]] Result<> check_region(NodeId node, const RegionSpec& spec, Stage when, bool is_taken);
[[nodiscard]] Result<> check_worker(const WorkerSpec& spec, Stage when);
// 1 to 4096 nodes, all of one process (none given) or each one's own.
[[nodiscard]] Result<> check_nodes(std::string_view fabric, std::uint32_t nodes,
                                   std::optional<std::uint32_t> processes);

}  // namespace loch::fabric::realtime
