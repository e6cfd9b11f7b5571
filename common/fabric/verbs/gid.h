// Scores the GIDs (RDMA port addresses) of a port, so that the best can be chosen. A GID's index differs from
// host to host, so the score depends on the GID's kind and address.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace loch::fabric::verbs {

using Gid = std::array<std::uint8_t, 16>;  // 128-bit address in network byte order
enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
  std::uint32_t index = 0;
  Gid gid{};
  GidKind kind = GidKind::infiniband;
  // prefix length of the interface's address, such as 24 for 10.1.2.3/24; 0 if unknown
  std::uint32_t prefix_bits = 0;
  bool is_vlan = false;  // whether the GID belongs to a network interface with a VLAN tag
  bool operator==(const GidEntry&) const = default;
};

[[nodiscard]] bool is_ipv4(const Gid& gid);        // whether the GID is ::ffff:a.b.c.d
[[nodiscard]] bool is_link_local(const Gid& gid);  // whether the GID is in fe80::/10
// The GID as "10.77.0.1" if it is IPv4, else as 16 bytes in IPv6 notation.
[[nodiscard]] std::string to_text(const Gid& gid);

// The preference for a GID: higher is better, 0 means unusable (an empty GID). RoCE v2 comes before v1,
// because it is routable and has ECN; then IPv4 before global IPv6 before link-local addresses. On InfiniBand
// all GIDs score alike.
[[nodiscard]] int score(const GidEntry& entry);

}  // namespace loch::fabric::verbs
