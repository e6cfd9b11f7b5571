// Tests one server worker's records, without a fabric.
#include "newstore/shard.h"

#include <gtest/gtest.h>

namespace loch::newstore {
namespace {

std::vector<std::byte> value_of(int number) {
  return std::vector<std::byte>(8, static_cast<std::byte>(number));
}

TEST(Shard, HoldsTheNewestValueOfEachKey) {
  Shard shard({.value_bytes = 8});
  std::vector<std::byte> value(8);
  for (int round = 1; round <= 9; ++round) {
    shard.put("a", value_of(round));
    if (round % 2 == 1) shard.put("b", value_of(100 + round));
    ASSERT_TRUE(shard.get("a", value));
    EXPECT_EQ(value, value_of(round));
  }
  ASSERT_TRUE(shard.get("b", value));
  EXPECT_EQ(value, value_of(109));
}

TEST(Shard, ARemovedKeyIsGoneAndItsRoomIsAnothers) {
  Shard shard({.value_bytes = 8});
  std::vector<std::byte> value(8);
  shard.put("a", value_of(1));
  EXPECT_TRUE(shard.remove("a"));
  EXPECT_FALSE(shard.remove("a"));
  shard.put("b", value_of(2));
  EXPECT_FALSE(shard.get("a", value));
  ASSERT_TRUE(shard.get("b", value));
  EXPECT_EQ(value, value_of(2));
  EXPECT_EQ(shard.counters().at("entries"), 1);
}

}  // namespace
}  // namespace loch::newstore
