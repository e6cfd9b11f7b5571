// Tests the tables that map queue pairs to the nodes and workers that send messages.
#include "common/fabric/verbs/sources.h"

#include <gtest/gtest.h>

#include <cstring>

namespace loch::fabric::verbs {
namespace {

TEST(Sources, FindsWhatWasAddedAndNothingElse) {
  Sources sources;
  sources.reserve(200);
  for (std::uint32_t i = 0; i < 200; ++i)
    ASSERT_TRUE(
        sources.add(i * 7919 & 0xffffff, {static_cast<NodeId>(i), static_cast<std::uint16_t>(i * 3)}));
  for (std::uint32_t i = 0; i < 200; ++i) {
    const auto found = sources.find(i * 7919 & 0xffffff);
    ASSERT_TRUE(found.has_value()) << i;
    EXPECT_EQ(found->node, i);
    EXPECT_EQ(found->worker, i * 3);
  }
  EXPECT_FALSE(sources.find(5).has_value());
}

TEST(Sources, AReusedQueuePairNumberIsRewritten) {
  Sources sources;
  sources.reserve(4);
  ASSERT_TRUE(sources.add(77, {1, 2}));
  ASSERT_TRUE(sources.add(77, {3, 4}));
  EXPECT_EQ(sources.find(77)->node, 3);
  EXPECT_EQ(sources.find(77)->worker, 4);
}

TEST(Sources, SaysWhenItIsFull) {
  Sources sources;
  sources.reserve(1);
  std::uint32_t added = 0;
  while (added < 1000 && sources.add(added + 1, {})) ++added;
  EXPECT_LT(added, 1000u);
  EXPECT_FALSE(sources.find(5000).has_value());
}

Gid ipv4(std::uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last}; }

TEST(DatagramSources, TheAddressDecidesBetweenMachines) {
  DatagramSources sources;
  sources.set({{17, 4, ipv4(1), {0, 5}}, {17, 6, ipv4(2), {1, 6}}, {18, 4, ipv4(1), {0, 9}}});
  std::byte grh[40] = {};
  const std::uint8_t from_second[4] = {10, 77, 0, 2};
  std::memcpy(grh + 32, from_second, 4);
  EXPECT_EQ(sources.find(17, 0, grh)->node, 1);
  EXPECT_EQ(sources.find(17, 4, nullptr)->node, 0);
  EXPECT_EQ(sources.find(18, 0, nullptr)->worker, 9);
  EXPECT_FALSE(sources.find(19, 0, grh).has_value());
  std::memset(grh, 0, sizeof grh);
  EXPECT_FALSE(sources.find(17, 0, grh).has_value());
}

}  // namespace
}  // namespace loch::fabric::verbs
