// Which device each process of a run has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/capabilities.h"
#include "common/fabric/region.h"

namespace loch::fabric {

// The device by which a process of the run reaches the others, as the fabric chose it.
struct NodeDevice {
  NodeId node = 0;  // the process's first
  std::string host;
  std::uint32_t port = 0;
  std::string gid;      // address; empty: none
  std::string network;  // that all of them are in
  double gigabits = 0;  // a second; 0: not known
  std::uint32_t pkey = 0, service_level = 0, traffic_class = 0, flow_label = 0;
  Capabilities can;  // of this device alone
  bool operator==(const NodeDevice&) const = default;
};

// Who has what, one line for each capability in which the devices differ: "in_order_placement: yes on n1
// (mlx5_0); no on n2 (mlx4_0)".
[[nodiscard]] std::vector<std::string> unlike(std::span<const NodeDevice> devices);

}  // namespace loch::fabric
