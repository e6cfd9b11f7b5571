// Tests which GID of a port is chosen.
#include "common/fabric/verbs/gid.h"

#include <gtest/gtest.h>

#include <vector>

namespace loch::fabric::verbs {
namespace {

Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last}; }
constexpr Gid link_local{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0xff, 0xfe, 4, 5, 6};
constexpr Gid global_ipv6{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

TEST(Gid, TextIsTheAddress) {
  EXPECT_EQ(to_text(ipv4(1)), "10.77.0.1");
  EXPECT_EQ(to_text(global_ipv6), "2001:db8::1");
}

TEST(Gid, RoceV2WithIpv4Wins) {
  const std::vector<GidEntry> entries{{0, link_local, GidKind::roce_v1}, {1, link_local, GidKind::roce_v2},
                                      {2, ipv4(1), GidKind::roce_v1},    {3, global_ipv6, GidKind::roce_v2},
                                      {4, ipv4(1), GidKind::roce_v2},    {5, ipv4(2), GidKind::roce_v2}};
  ASSERT_TRUE(choose(entries).has_value());
  EXPECT_EQ(choose(entries)->index, 4u);
}

TEST(Gid, VersionCountsMoreThanAddress) {
  const std::vector<GidEntry> entries{{0, ipv4(1), GidKind::roce_v1}, {1, link_local, GidKind::roce_v2}};
  EXPECT_EQ(choose(entries)->index, 1u);
}

TEST(Gid, EmptyEntriesAreNeverUsed) {
  const std::vector<GidEntry> entries{{0, Gid{}, GidKind::roce_v2}, {1, Gid{}, GidKind::infiniband}};
  EXPECT_FALSE(choose(entries).has_value());
  EXPECT_FALSE(choose({}).has_value());
}

TEST(Gid, InfinibandTakesTheFirst) {
  const std::vector<GidEntry> entries{{0, link_local, GidKind::infiniband},
                                      {1, global_ipv6, GidKind::infiniband}};
  EXPECT_EQ(choose(entries)->index, 0u);
}

}  // namespace
}  // namespace loch::fabric::verbs
