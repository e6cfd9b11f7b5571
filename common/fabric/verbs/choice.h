// Which device, port and GID each host uses: one rule over what all hosts offer, for the fabric and for
// `loch doctor`. Data in, data out.
//
// A host's candidates are the GIDs of its usable ports. A *network* is what a GID belongs to: a subnet of
// InfiniBand, or a version of RoCE and an IP subnet. All hosts use one network: the one, of those in which
// every host has a candidate, whose slowest host is fastest; among equals RoCE v2 over IPv4 before others
// (gid.h), private addresses before public ones, interfaces without a VLAN before those with one. Where no
// network is common to all, RoCE v2 hosts are taken to reach each other through routers. In its network a
// host uses its fastest port; among equals the first by name and number, and the lowest index.
//
// On InfiniBand the hosts' queue pairs are of one partition: the first in the first host's table of which all
// are full members, since limited members do not hear each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/devices.h"
#include "common/fabric/verbs/gid.h"

namespace loch::fabric::verbs {

struct PortOffer {
  std::string device;
  std::uint32_t number = 1;
  bool is_roce = false;
  double gigabits = 0;               // rate in Gbit/s; 0 if unknown
  std::vector<std::uint16_t> pkeys;  // P_Keys by index; empty: only that of the default partition
  std::string refusal;               // the reason why the port cannot be used; empty if it can
  std::vector<GidEntry> gids;
  bool operator==(const PortOffer&) const = default;
};

// The flags of a host that restrict the choice.
struct Wish {
  // --device: names of devices, alone or as HOST=NAME, and subnets such as 10.1.0.0/16, separated by commas.
  // Ports that match one of them may be used; on a host that is named, only ports that match its own entries.
  // Empty: any port.
  std::string device;
  std::uint32_t port = 0;             // port number; 0: any
  int gid_index = -1;                 // GID index; -1: any
  std::optional<std::uint16_t> pkey;  // P_Key of the partition, with or without the full-membership bit
  bool operator==(const Wish&) const = default;
};

struct HostOffer {
  std::string host;
  Wish wish;
  std::vector<PortOffer> ports;
  bool operator==(const HostOffer&) const = default;
};

struct Chosen {
  std::string device;
  std::uint32_t port = 1;
  bool is_roce = false;
  std::optional<GidEntry> gid;  // none on an InfiniBand port without GIDs
  std::uint16_t pkey_index = 0, pkey = 0xffff;
  double gigabits = 0;
  // name of the network, such as "RoCE v2, 10.1.0.0/16", "InfiniBand, fe80::/64" or "RoCE v2, routed"
  std::string network;
  bool operator==(const Chosen&) const = default;
};

// Returns the choice for each host. The error is one line that says which hosts have what: invalid_argument
// if a flag names something that does not exist, unsupported if the hosts cannot reach each other.
[[nodiscard]] Result<std::vector<Chosen>> choose_ports(std::span<const HostOffer> hosts);

// Conversion to and from JSON, which other processes send. Parsing accepts no malformed input.
[[nodiscard]] std::string to_text(const HostOffer& offer);
[[nodiscard]] Result<HostOffer> parse_offer(std::string_view text);
[[nodiscard]] std::string to_text(const NodeDevice& device);
[[nodiscard]] Result<NodeDevice> parse_device(std::string_view text);

}  // namespace loch::fabric::verbs
