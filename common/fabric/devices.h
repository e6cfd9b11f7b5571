// Describes the RDMA device of each process of a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/capabilities.h"
#include "common/fabric/region.h"

namespace loch::fabric {

// The RDMA device and port that a process of the run uses, as the fabric chose them.
struct NodeDevice {
  NodeId node = 0;  // the first node of the process
  std::string host;
  std::uint32_t port = 0;
  std::string gid;      // GID of the port as text; empty if it has none
  std::string network;  // name of the network that the ports of all processes are in
  double gigabits = 0;  // rate of the port in Gbit/s; 0 if unknown
  std::uint32_t pkey = 0, service_level = 0, traffic_class = 0, flow_label = 0;
  std::string firmware;  // version of the device's firmware
  std::string driver;    // the kernel's driver of the device; empty if unknown
  int numa_node = -1;    // NUMA node that the device is attached to; -1: unknown, or the machine has only one
  Capabilities can;      // capabilities of this device alone
  bool operator==(const NodeDevice&) const = default;
};

// Lists the capabilities in which the devices differ, one line each, such as "in_order_placement: yes on n1
// (mlx5_0); no on n2 (mlx4_0)".
[[nodiscard]] std::vector<std::string> unlike(std::span<const NodeDevice> devices);

}  // namespace loch::fabric
