// Which GID of a port to use: an index that is right on one host is wrong on the next, so the choice
// is by what an entry is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace loch::fabric::verbs {

using Gid = std::array<std::uint8_t, 16>;  // network byte order
enum class GidKind : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct GidEntry {
  std::uint32_t index = 0;
  Gid gid{};
  GidKind kind = GidKind::infiniband;
};

[[nodiscard]] bool is_ipv4(const Gid& gid);        // ::ffff:a.b.c.d
[[nodiscard]] bool is_link_local(const Gid& gid);  // fe80::/10
// "10.77.0.1", or the 16 bytes in IPv6 notation.
[[nodiscard]] std::string to_text(const Gid& gid);

// Higher is better; 0: not to be used. RoCE v2 before v1 (routable, ECN), IPv4 before global IPv6
// before link-local; on InfiniBand all are equal. An empty GID is never used.
[[nodiscard]] int score(const GidEntry& entry);
// The best one, the lowest index among equals.
[[nodiscard]] std::optional<GidEntry> choose(std::span<const GidEntry> entries);

}  // namespace loch::fabric::verbs
