// The rails of a run: the RDMA ports that each of its processes uses at the same time. A list of the devices
// of all processes (Fabric::devices()) has a process's devices in the order of its rails.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/devices.h"

namespace loch::fabric {

// Returns the number of the rail, from 0, of each device in the list.
[[nodiscard]] std::vector<std::uint32_t> rails_of(std::span<const NodeDevice> devices);
// Returns how many rails the process with the most has; at least 1.
[[nodiscard]] std::uint32_t count_rails(std::span<const NodeDevice> devices);
// The names of a node's devices by rail, with + between them; empty if the node is not in the list.
[[nodiscard]] std::string device_names(std::span<const NodeDevice> devices, NodeId node);

}  // namespace loch::fabric
