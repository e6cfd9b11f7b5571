// Tests which GID of a port is chosen.
#include "common/fabric/verbs/gid.h"

#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last}; }
constexpr Gid link_local{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0xff, 0xfe, 4, 5, 6};
constexpr Gid global_ipv6{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

TEST(Gid, TextIsTheAddress) {
  EXPECT_EQ(to_text(ipv4(1)), "10.77.0.1");
  EXPECT_EQ(to_text(global_ipv6), "2001:db8::1");
}

int score_of(const Gid& gid, GidKind kind) { return score({.index = 0, .gid = gid, .kind = kind}); }

TEST(Gid, RoceV2WithIpv4IsBestAndTheVersionCountsMoreThanTheAddress) {
  EXPECT_GT(score_of(ipv4(1), GidKind::roce_v2), score_of(global_ipv6, GidKind::roce_v2));
  EXPECT_GT(score_of(global_ipv6, GidKind::roce_v2), score_of(link_local, GidKind::roce_v2));
  EXPECT_GT(score_of(link_local, GidKind::roce_v2), score_of(ipv4(1), GidKind::roce_v1));
  EXPECT_GT(score_of(ipv4(1), GidKind::roce_v1), score_of(link_local, GidKind::roce_v1));
}

TEST(Gid, EmptyEntriesAreNeverUsed) {
  EXPECT_EQ(score_of(Gid{}, GidKind::roce_v2), 0);
  EXPECT_EQ(score_of(Gid{}, GidKind::infiniband), 0);
}

TEST(Gid, OnInfinibandAllAreEqual) {
  EXPECT_EQ(score_of(link_local, GidKind::infiniband), score_of(global_ipv6, GidKind::infiniband));
}

}  // namespace
}  // namespace loch::fabric::verbs
