// Tests the layout of request slots, rows and columns.
#include "common/rpc/slots.h"

#include <gtest/gtest.h>

#include <set>

namespace loch::rpc {
namespace {

TEST(SlotShape, RightAlignsMessagesInWholeCacheLines) {
  const SlotShape shape(152 + 1000, 1000, 1000);
  EXPECT_EQ(shape.slot_bytes() % 64, 0u);
  EXPECT_EQ(shape.slot_bytes(), 1152u);
  EXPECT_EQ(shape.start(1152), 0u);
  EXPECT_EQ(shape.start(144), 1008u);
  EXPECT_EQ(shape.word_at(), 1144u);
  EXPECT_FALSE(shape.elision().on()) << "every byte of the value is kept";
}

// In a simulation that does not store whole values, a slot with the largest message keeps the value's first
// 32 bytes (its stamp, which identifies it) and the 152 bytes behind the value.
TEST(SlotShape, KeepsTheStampAndEverythingBehindTheValue) {
  const std::uint32_t value = 16384, message = value + 152;
  const SlotShape shape(message, value, 32);
  const fabric::Elision& kept = shape.elision();
  ASSERT_TRUE(kept.on());
  EXPECT_EQ(kept.entry_bytes, shape.slot_bytes());
  EXPECT_EQ(kept.keep_head, shape.start(message) + 32);
  EXPECT_EQ(kept.keep_tail, 152u);
  const fabric::Region region(0, 0, "r", nullptr, 8 * kept.entry_bytes, kept);
  EXPECT_EQ(region.kept(shape.start(message), 40), 32u);
  EXPECT_EQ(region.kept(shape.start(message) + 32, 8), 0u);
  EXPECT_EQ(region.kept(shape.start(144), 144), 144u);
}

TEST(SlotShape, NothingIsElidedWhereItWouldSaveNothing) {
  EXPECT_FALSE(SlotShape(32 + 120, 32, 32).elision().on());
}

TEST(SlotGrid, SlotsDoNotOverlapAndAWatchSeesOneRow) {
  const Parties parties{.nodes = 3, .servers = 2, .clients = 4, .window = 2};
  const SlotGrid grid = parties.requests(SlotShape(200, 64, 64));
  EXPECT_EQ(grid.rows(), 2u);
  EXPECT_EQ(grid.columns(), 24u);
  std::set<std::uint64_t> starts;
  for (std::uint32_t row = 0; row < grid.rows(); ++row) {
    for (std::uint32_t column = 0; column < grid.columns(); ++column) {
      const std::uint64_t at = grid.slot(row, column);
      EXPECT_EQ(at % grid.shape().slot_bytes(), 0u);
      EXPECT_LE(at + grid.shape().slot_bytes(), grid.bytes());
      EXPECT_TRUE(starts.insert(at).second);
      EXPECT_EQ(grid.message(row, column, 24) + 16, grid.word(row, column));
    }
  }
  const fabric::Region region(0, 0, "r", nullptr, grid.bytes(), {});
  const fabric::WatchSet set = grid.watch(region, 1, nullptr, nullptr);
  EXPECT_EQ(set.count, 24u);
  EXPECT_EQ(set.offset, grid.word(1, 0));
  EXPECT_EQ(set.offset + std::uint64_t{set.stride} * 23, grid.word(1, 23));
  const fabric::RegionSpec spec = grid.region("x", true);
  EXPECT_TRUE(spec.remote_write);
  EXPECT_FALSE(spec.remote_read || spec.remote_atomic);
}

TEST(Parties, ColumnsAndRowsNameEveryPartyOnce) {
  for (const std::uint32_t server_nodes : {0u, 1u, 2u}) {
    const Parties parties{.nodes = 4, .servers = 2, .clients = 4, .window = 2, .server_nodes = server_nodes};
    std::set<std::uint32_t> columns, rows;
    for (fabric::NodeId node = 0; node < 4; ++node) {
      for (std::uint32_t lane = 0; parties.asks(node) && lane < parties.lanes(); ++lane) {
        const std::uint32_t column = parties.column(node, lane);
        EXPECT_TRUE(columns.insert(column).second);
        EXPECT_EQ(parties.node_of(column), node);
        EXPECT_EQ(parties.lane_of(column), lane);
      }
      for (std::uint32_t server = 0; parties.serves(node) && server < 2; ++server)
        EXPECT_TRUE(rows.insert(parties.row(node, server)).second);
    }
    EXPECT_EQ(columns.size(), parties.columns());
    EXPECT_EQ(*columns.rbegin() + 1, parties.columns());
    EXPECT_EQ(rows.size(), parties.rows());
    EXPECT_EQ(*rows.rbegin() + 1, parties.rows());
  }
  const Parties parties{.nodes = 1, .servers = 1, .clients = 4, .window = 2};
  EXPECT_EQ(parties.lane(3, 1), 7u);
}

}  // namespace
}  // namespace loch::rpc
