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
  double gigabits = 0;               // a second; 0: not known
  std::vector<std::uint16_t> pkeys;  // by index; empty: one, that of the default partition
  std::string refusal;               // why it cannot be used; empty: it can
  std::vector<GidEntry> gids;
  bool operator==(const PortOffer&) const = default;
};

// What the flags ask of a host.
struct Wish {
  // --device: names, each alone or as HOST=NAME, and subnets such as 10.1.0.0/16, separated by commas. A port
  // that any of them means may be used; where a host is named, only what is named for it. Empty: any.
  std::string device;
  std::uint32_t port = 0;             // 0: any
  int gid_index = -1;                 // -1: any
  std::optional<std::uint16_t> pkey;  // the partition, with or without the bit of full membership
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
  std::optional<GidEntry> gid;  // InfiniBand may have none
  std::uint16_t pkey_index = 0, pkey = 0xffff;
  double gigabits = 0;
  std::string network;  // "RoCE v2, 10.1.0.0/16", "InfiniBand, fe80::/64", "RoCE v2, routed"
  bool operator==(const Chosen&) const = default;
};

// One for each host, or one line that says which hosts have what (invalid_argument: a flag names what is not
// there; unsupported: hosts that cannot reach each other).
[[nodiscard]] Result<std::vector<Chosen>> choose_ports(std::span<const HostOffer> hosts);

// JSON, for other processes; what is parsed may come from anyone.
[[nodiscard]] std::string to_text(const HostOffer& offer);
[[nodiscard]] Result<HostOffer> parse_offer(std::string_view text);
[[nodiscard]] std::string to_text(const NodeDevice& device);
[[nodiscard]] Result<NodeDevice> parse_device(std::string_view text);

}  // namespace loch::fabric::verbs
