// Registers the regions of a store's nodes, and looks them up on the nodes that access them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::kv {

// Registers a memory region of this name and size. `rights`: what remote nodes may do in the region, and
// which part of it a simulation stores.
[[nodiscard]] Result<fabric::Region*> add_region(fabric::Fabric& fabric, fabric::NodeId node,
                                                 std::string_view name, std::uint64_t bytes,
                                                 fabric::RegionSpec rights = {});
// Looks up the region of this name on each of the nodes 0 … nodes-1.
[[nodiscard]] Result<std::vector<fabric::RemoteRegion>> look_up(fabric::Fabric& fabric, std::uint32_t nodes,
                                                                std::string_view name);

}  // namespace loch::kv
