// Tests the round-robin tournament.
#include "common/fabric/ping/tournament.h"

#include <gtest/gtest.h>

#include <set>

namespace loch::fabric::ping {
namespace {

TEST(Tournament, EachPairMeetsOnceAndRoundsAreOfDisjointPairs) {
  for (std::uint32_t nodes = 2; nodes <= 33; ++nodes) {
    std::set<std::pair<NodeId, NodeId>> met;
    for (std::uint32_t round = 0; round < rounds_of(nodes); ++round) {
      std::uint32_t pausing = 0;
      for (std::uint32_t node = 0; node < nodes; ++node) {
        const auto self = static_cast<NodeId>(node);
        const auto other = partner_of(nodes, round, self);
        if (!other) ++pausing;
        if (!other) continue;
        ASSERT_NE(*other, self) << nodes << " nodes, round " << round;
        ASSERT_EQ(partner_of(nodes, round, *other), self) << nodes << " nodes, round " << round;
        EXPECT_TRUE(met.insert({self, *other}).second) << "met twice";
      }
      EXPECT_EQ(pausing, nodes % 2);
    }
    EXPECT_EQ(met.size(), std::size_t{nodes} * (nodes - 1));
  }
  EXPECT_EQ(rounds_of(1), 0u);
}

}  // namespace
}  // namespace loch::fabric::ping
