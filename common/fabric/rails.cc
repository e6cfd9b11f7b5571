// Tells from a list of devices which rail of its process each of them is.
#include "common/fabric/rails.h"

#include <algorithm>
#include <map>

namespace loch::fabric {

std::vector<std::uint32_t> rails_of(std::span<const NodeDevice> devices) {
  std::map<NodeId, std::uint32_t> counts;
  std::vector<std::uint32_t> rails;
  for (const NodeDevice& device : devices) rails.push_back(counts[device.node]++);
  return rails;
}

std::uint32_t count_rails(std::span<const NodeDevice> devices) {
  const std::vector<std::uint32_t> rails = rails_of(devices);
  return rails.empty() ? 1 : *std::ranges::max_element(rails) + 1;
}

std::string device_names(std::span<const NodeDevice> devices, NodeId node) {
  std::string names;
  for (const NodeDevice& one : devices) {
    if (one.node == node) names += (names.empty() ? "" : "+") + one.can.device;
  }
  return names;
}

}  // namespace loch::fabric
