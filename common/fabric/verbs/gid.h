// Which GID of a port to use: an index that is right on one host is wrong on the next, so the choice
// is by what an entry is.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace loch::fabric::verbs {

using Gid = std::array<std::uint8_t, 16>;  // network byte order
enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
  std::uint32_t index = 0;
  Gid gid{};
  GidKind kind = GidKind::infiniband;
  std::uint32_t prefix_bits = 0;  // of the interface's address, 24 of 10.1.2.3/24; 0: not known
  bool is_vlan = false;           // of an interface with a VLAN tag
  bool operator==(const GidEntry&) const = default;
};

[[nodiscard]] bool is_ipv4(const Gid& gid);        // ::ffff:a.b.c.d
[[nodiscard]] bool is_link_local(const Gid& gid);  // fe80::/10
// "10.77.0.1", or the 16 bytes in IPv6 notation.
[[nodiscard]] std::string to_text(const Gid& gid);

// Higher is better; 0: not to be used. RoCE v2 before v1 (routable, ECN), IPv4 before global IPv6
// before link-local; on InfiniBand all are equal. An empty GID is never used.
[[nodiscard]] int score(const GidEntry& entry);

}  // namespace loch::fabric::verbs
