// Lists the RDMA devices of this host with their ports, rates, GIDs and P_Keys.
#include "common/fabric/verbs/ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

#include "common/fabric/verbs/queue_pair.h"

namespace loch::fabric::verbs {
namespace {

constexpr std::size_t most_gids = 256;

// Returns the prefix length of each IP address of this host, keyed by the GID that is derived from the
// address.
std::map<Gid, std::uint32_t> prefixes_here() {
  std::map<Gid, std::uint32_t> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  const auto ones = [](const void* mask, std::size_t bytes) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      bits += static_cast<std::uint32_t>(std::popcount(static_cast<const unsigned char*>(mask)[i]));
    return bits;
  };
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr) continue;
    Gid gid{};
    if (at->ifa_addr->sa_family == AF_INET) {
      gid[10] = gid[11] = 0xff;
      std::memcpy(gid.data() + 12, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, 4);
      all[gid] = ones(&reinterpret_cast<const sockaddr_in*>(at->ifa_netmask)->sin_addr, 4);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      std::memcpy(gid.data(), &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, 16);
      all[gid] = ones(&reinterpret_cast<const sockaddr_in6*>(at->ifa_netmask)->sin6_addr, 16);
    }
  }
  freeifaddrs(list);
  return all;
}

bool is_vlan(std::uint32_t interface) {
  char name[IF_NAMESIZE] = {};
  if (interface == 0 || if_indextoname(interface, name) == nullptr) return false;
  struct stat found{};
  return stat(fmt::format("/proc/net/vlan/{}", name).c_str(), &found) == 0;
}

GidKind kind_of(std::uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidKind::roce_v2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce_v1 : GidKind::infiniband;
}

std::vector<GidEntry> gids_of(ibv_context* context, std::uint32_t port) {
  static const std::map<Gid, std::uint32_t> prefixes = prefixes_here();
  std::vector<ibv_gid_entry> table(most_gids);
  const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
  std::vector<GidEntry> entries;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& from = table[static_cast<std::size_t>(i)];
    if (from.port_num != port) continue;
    GidEntry entry{.index = from.gid_index, .gid = {}, .kind = kind_of(from.gid_type)};
    std::copy(std::begin(from.gid.raw), std::end(from.gid.raw), entry.gid.begin());
    if (const auto at = prefixes.find(entry.gid); at != prefixes.end()) entry.prefix_bits = at->second;
    entry.is_vlan = is_vlan(from.ndev_ifindex);
    entries.push_back(entry);
  }
  return entries;
}

// Returns the P_Keys of a port; empty if its table has one entry, the default partition's.
std::vector<std::uint16_t> pkeys_of(ibv_context* context, std::uint8_t port, std::uint16_t length) {
  std::vector<std::uint16_t> keys;
  if (length <= 1) return keys;
  for (int i = 0; i < length; ++i) {
    __be16 key = 0;
    if (ibv_query_pkey(context, port, i, &key) != 0) break;
    keys.push_back(ntohs(key));
  }
  while (!keys.empty() && keys.back() == 0) keys.pop_back();
  return keys;
}

std::string refusal_of(const ibv_port_attr& state) {
  if (state.state != IBV_PORT_ACTIVE) return "is not active (cable, subnet manager, or ip link set … up)";
  if (state.link_layer == IBV_LINK_LAYER_INFINIBAND && state.lid == 0) return "has no LID (subnet manager)";
  return "";
}

void add_ports(ibv_device* device, std::vector<PortOffer>& ports) {
  PortOffer port;
  port.device = ibv_get_device_name(device);
  const auto refuse = [&](std::string why) {
    port.refusal = std::move(why);
    ports.push_back(port);
  };
  if (device->transport_type == IBV_TRANSPORT_IWARP)
    return refuse("is an iWARP device's: no UC, no UD, no atomics; use InfiniBand or RoCE");
  if (device->transport_type == IBV_TRANSPORT_USNIC || device->transport_type == IBV_TRANSPORT_USNIC_UDP)
    return refuse("is a usNIC device's: UD alone");
  const Owned<ibv_context, ibv_close_device> context(ibv_open_device(device));
  if (context == nullptr)
    return refuse(
        fmt::format("cannot be opened: {} (are /dev/infiniband/uverbs* open to you?)", std::strerror(errno)));
  ibv_device_attr attributes{};
  if (ibv_query_device(context.get(), &attributes) != 0) return refuse("does not answer");
  for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    ibv_port_attr state{};
    port.number = number;
    if (ibv_query_port(context.get(), number, &state) != 0) {
      refuse("does not answer");
      continue;
    }
    port.refusal = refusal_of(state);
    port.is_roce = state.link_layer == IBV_LINK_LAYER_ETHERNET;
    port.gigabits = gigabits_of(state.active_width, state.active_speed);
    port.gids = gids_of(context.get(), number);
    port.pkeys =
        port.is_roce ? std::vector<std::uint16_t>() : pkeys_of(context.get(), number, state.pkey_tbl_len);
    ports.push_back(port);
  }
}

}  // namespace

ibv_device* DeviceList::find(const std::string& name) const {
  for (int i = 0; i < (list == nullptr ? 0 : count); ++i) {
    if (name == ibv_get_device_name(list[i])) return list[i];
  }
  return nullptr;
}

double gigabits_of(std::uint8_t width, std::uint8_t speed) {
  // Number of lanes of the link, from the width code in PortInfo (InfiniBand 1.5, 14.2.5.6).
  const double lanes = width == 1    ? 1
                       : width == 2  ? 4
                       : width == 4  ? 8
                       : width == 8  ? 12
                       : width == 16 ? 2
                                     : 0;
  switch (speed) {
    case 1:
      return lanes * 2.5;
    case 2:
      return lanes * 5;
    case 4:
    case 8:
      return lanes * 10;
    case 16:
      return lanes * 14;
    case 32:
      return lanes * 25;
    case 64:
      return lanes * 50;
    case 128:
      return lanes * 100;
    default:
      return 0;
  }
}

HostOffer offer_of_this_host(const Wish& wish) {
  HostOffer offer;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) offer.host = name;
  offer.wish = wish;
  const DeviceList devices;
  for (int i = 0; i < (devices.list == nullptr ? 0 : devices.count); ++i)
    add_ports(devices.list[i], offer.ports);
  return offer;
}

}  // namespace loch::fabric::verbs
