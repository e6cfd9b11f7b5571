// The regions of a real-time fabric's nodes, and the checks and one-line errors that all real-time fabrics
// share while they are set up. Nothing here is used per operation.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::fabric::realtime {

constexpr std::size_t region_name_most = 95;  // most characters of a region's name

// The regions of each node, indexed by their id. `R` derives from Region.
template <typename R>
class Regions {
 public:
  explicit Regions(std::uint32_t nodes) : by_node_(nodes) {}
  // The node's region of this name; null if there is none, or no such node.
  [[nodiscard]] R* find(NodeId node, std::string_view name) const {
    if (node >= by_node_.size()) return nullptr;
    for (const auto& region : by_node_[node]) {
      if (region->name() == name) return region.get();
    }
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<R>>& of(NodeId node) const { return by_node_[node]; }
  // The id that the node's next region will get.
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

// How far the set-up of the fabric has come when a region is registered or a worker added.
struct Stage {
  bool is_local = false;  // true: this process hosts the node
  bool is_exchanged = false;
};
// An error of one line that names the region or worker and the reason.
[[nodiscard]] std::unexpected<Error> refuse_region(NodeId node, const RegionSpec& spec, ErrorCode code,
                                                   std::string_view why);
[[nodiscard]] std::unexpected<Error> refuse_worker(const WorkerSpec& spec, ErrorCode code,
                                                   std::string_view why);
// The error for looking up a region that does not exist.
[[nodiscard]] std::unexpected<Error> unknown_region(NodeId node, std::string_view region, bool is_exchanged);
// Makes those checks of a region that do not depend on the device.
[[nodiscard]] Result<> check_region(NodeId node, const RegionSpec& spec, Stage when, bool is_taken);
[[nodiscard]] Result<> check_worker(const WorkerSpec& spec, Stage when);
// Checks the number of nodes (1 to 4096) and the processes: either one process hosts all nodes, or each node
// has a process of its own.
[[nodiscard]] Result<> check_nodes(std::string_view fabric, std::uint32_t nodes,
                                   std::optional<std::uint32_t> processes);

}  // namespace loch::fabric::realtime
