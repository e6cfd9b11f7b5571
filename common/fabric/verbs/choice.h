// Chooses the device, port and GID of each host, by one rule from what all hosts offer. `loch doctor` and the
// fabric use it. The choice depends on its arguments alone.
//
// A host's candidates are the GIDs of its usable ports. The *network* of a GID is an InfiniBand subnet, or an
// IP subnet with a version of RoCE. All hosts use the same network. Of the networks in which every host has a
// candidate, it is the one whose slowest host is fastest. Between equally fast networks, RoCE v2 over IPv4 is
// preferred (gid.h), then private to public addresses, then interfaces without a VLAN to those with one. If
// the hosts have no network in common, hosts with RoCE v2 are assumed to reach each other through routers. In
// the chosen network a host uses its fastest port; of equally fast ones the first by device name and port
// number, with its lowest GID index.
//
// A host has several *rails* (ports that a run uses together) if --device names them. The rails of all hosts
// are connected in the order in which they are named, each in a network of its own by the rule above; if that
// leaves a rail without a network, each rail of the first host is connected to the rails of the others that
// are in its network.
//
// On InfiniBand, the queue pairs of all hosts are in one partition: the first one in the first host's P_Key
// table of which all hosts are full members. Limited members cannot communicate with each other.
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
  std::vector<std::uint16_t> pkeys;  // P_Key table; empty: the port has the default partition only
  std::string refusal;               // the reason why the port cannot be used; empty if it can
  std::vector<GidEntry> gids;
  bool operator==(const PortOffer&) const = default;
};

// The command-line flags by which a host restricts the choice.
struct Wish {
  // --device: a comma-separated list of device names, of HOST=NAME entries, and of subnets such as
  // 10.1.0.0/16. A port that matches an entry may be used. NAME:PORT names one port of a device. For a host
  // that is named in HOST=NAME entries, only those entries count. Several names or subnets with + between
  // them are the host's rails. Empty: any port may be used.
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

inline constexpr std::size_t rails_most = 8;  // upper bound of the rails of a host

// Returns the choice for each rail and host: for each rail, the ports of the hosts in the order of `hosts`.
// There is at least one rail. An error's message is one line that lists what
// each host has. Its code is invalid_argument if a flag names something that does not exist, and unsupported
// if the hosts cannot reach each other.
[[nodiscard]] Result<std::vector<std::vector<Chosen>>> choose_rails(std::span<const HostOffer> hosts);
// Returns the ports of the first rail that choose_rails() returns.
[[nodiscard]] Result<std::vector<Chosen>> choose_ports(std::span<const HostOffer> hosts);

// Converts a host's offer of devices to the JSON that processes send each other, and back. The parsers refuse
// malformed input.
[[nodiscard]] std::string to_text(const HostOffer& offer);
[[nodiscard]] Result<HostOffer> parse_offer(std::string_view text);
[[nodiscard]] std::string to_text(const NodeDevice& device);
[[nodiscard]] Result<NodeDevice> parse_device(std::string_view text);

}  // namespace loch::fabric::verbs
