// Lists the RDMA devices of this host with the fabric's judgement of each port, and the fabric's choice among
// them. `loch devices` and `loch doctor` print it. Control path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/verbs/choice.h"

namespace loch::fabric::verbs {

struct PortListing {
  PortOffer offer;
  std::string state, link_layer;  // as rdma-core names them, such as "ACTIVE" and "Ethernet"
  std::uint32_t mtu_bytes = 0;    // active MTU of RDMA packets; 0: unknown
  std::uint16_t lid = 0;
  std::string firmware, driver;  // empty: unknown
  int numa_node = -1;            // -1: unknown, or the machine has one
  // The GID and partition that a run on this port would use; empty if the fabric cannot use the port.
  std::optional<Chosen> taken;
  bool has_extended = false;        // whether a run on this port posts by ibv_wr_*
  std::optional<Capabilities> can;  // what the device can do on this port, found by opening it
  std::string refusal;              // why the fabric cannot use the port; empty if it can
};

struct Listing {
  std::string host;
  std::vector<PortListing> ports;
  // What the fabric would choose in a run on this host alone: a port for each rail, of which there is at
  // least one.
  Result<std::vector<Chosen>> rails;
};

// Lists every port of every device. Each usable port is opened for a moment, to find out what the device can
// do.
[[nodiscard]] Listing list_ports(const Wish& wish);

}  // namespace loch::fabric::verbs
