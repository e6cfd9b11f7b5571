// Lists the addresses of this host's interfaces, and compares them with those of other hosts.
#include "common/cluster/host_addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

namespace loch::cluster {
namespace {

// An address as 16 bytes, an IPv4 address as IPv6 maps it, so that both compare in one way.
using Bytes = std::array<unsigned char, 16>;
constexpr std::uint32_t mapped_bits = 96;

std::optional<Bytes> parse(std::string_view given, bool* is_v4 = nullptr) {
  const std::string text(given);
  Bytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  const bool is_short = inet_pton(AF_INET, text.c_str(), bytes.data() + 12) == 1;
  if (is_v4 != nullptr) *is_v4 = is_short;
  if (is_short || inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

bool are_in_one_subnet(const Bytes& a, const Bytes& b, std::uint32_t bits) {
  for (std::uint32_t bit = 0; bit < bits && bit < 8 * a.size(); ++bit) {
    const auto mask = static_cast<unsigned char>(0x80 >> (bit % 8));
    if (((a[bit / 8] ^ b[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::uint32_t ones(const void* mask, std::size_t bytes) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    bits += static_cast<std::uint32_t>(std::popcount(static_cast<const unsigned char*>(mask)[i]));
  return bits;
}

// `bits` of an address's prefix, counted as in its 16 bytes.
std::uint32_t whole_bits(std::uint32_t bits, bool is_v4) { return is_v4 ? bits + mapped_bits : bits; }

// Whether the address is of the interface, or in the subnet, that an entry of a list names.
bool is_named_by(const HostAddress& address, std::string_view entry) {
  if (entry == address.interface) return true;
  const std::size_t slash = entry.find('/');
  if (slash == std::string_view::npos) return false;
  std::uint32_t bits = 0;
  const std::string_view digits = entry.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  bool is_v4 = false, is_own_v4 = false;
  const auto net = parse(entry.substr(0, slash), &is_v4);
  const auto own = parse(address.text, &is_own_v4);
  if (error != std::errc{} || end != digits.data() + digits.size() || !net || !own || is_v4 != is_own_v4)
    return false;
  return are_in_one_subnet(*net, *own, whole_bits(bits, is_v4));
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  std::vector<HostAddress> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    HostAddress one{.interface = at->ifa_name, .text = {}, .bits = 0, .is_loopback = false};
    one.is_loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (at->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text.data(),
                text.size());
      one.bits = ones(&reinterpret_cast<const sockaddr_in*>(at->ifa_netmask)->sin_addr, 4);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text.data(), text.size());
      one.bits = ones(&reinterpret_cast<const sockaddr_in6*>(at->ifa_netmask)->sin6_addr, 16);
    } else {
      continue;
    }
    one.text = text.data();
    all.push_back(std::move(one));
  }
  freeifaddrs(list);
  return all;
}

std::vector<std::string> shown_addresses(const std::vector<HostAddress>& all, std::string_view only) {
  std::vector<std::string> shown;
  for (const HostAddress& each : all) {
    bool is_shown = only.empty() && !each.is_loopback;
    for (std::string_view rest = only; !rest.empty() && !is_shown;) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      is_shown = is_named_by(each, rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    if (is_shown) shown.push_back(each.text);
  }
  return shown;
}

std::vector<std::string> addresses_to_try(const std::vector<HostAddress>& own,
                                          const std::vector<std::string>& of_other) {
  std::vector<std::string> near, far;
  for (const std::string& text : of_other) {
    const auto other = parse(text);
    if (!other || std::ranges::find(own, text, &HostAddress::text) != own.end()) continue;
    const bool is_near = std::ranges::any_of(own, [&](const HostAddress& each) {
      bool is_v4 = false;
      const auto bytes = parse(each.text, &is_v4);
      return !each.is_loopback && bytes && are_in_one_subnet(*bytes, *other, whole_bits(each.bits, is_v4));
    });
    (is_near ? near : far).push_back(text);
  }
  near.insert(near.end(), far.begin(), far.end());
  return near;
}

std::string network_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  struct stat found{};
  if (stat("/proc/self/ns/net", &found) != 0) return boot;
  return fmt::format("{}-{}", boot, found.st_ino);
}

}  // namespace loch::cluster
