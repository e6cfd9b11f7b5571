// Registers regions by name, and looks one name up on many nodes.
#include "common/kv/regions.h"

#include <string>
#include <utility>

namespace loch::kv {

Result<fabric::Region*> add_region(fabric::Fabric& fabric, fabric::NodeId node, std::string_view name,
                                   std::uint64_t bytes, fabric::RegionSpec rights) {
  rights.name = std::string(name);
  rights.bytes = bytes;
  return fabric.register_region(node, rights);
}

Result<std::vector<fabric::RemoteRegion>> look_up(fabric::Fabric& fabric, std::uint32_t nodes,
                                                  std::string_view name) {
  std::vector<fabric::RemoteRegion> all(nodes);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    LOCH_ASSIGN(all[node], fabric.lookup(static_cast<fabric::NodeId>(node), name));
  }
  return all;
}

}  // namespace loch::kv
