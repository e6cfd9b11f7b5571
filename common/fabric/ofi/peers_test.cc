// Tests of the records that processes exchange, and of the ring that messages wait in.
#include "common/fabric/ofi/peers.h"

#include <gmock/gmock.h>

#include "common/fabric/ofi/ring.h"

namespace loch::fabric::ofi {
namespace {

using testing::HasSubstr;

NodeRecord sample() {
  NodeRecord node;
  node.node = 2;
  node.host = "c";
  node.provider = "tcp;ofi_rxm";
  node.regions.push_back({"index", 0x7f0000001000, 4096, ~std::uint64_t{0}, 77, RegionRecord::can_read});
  node.regions.push_back({"data", 0, 64, 3, 5, 7});
  node.workers.push_back({0, std::string("\x02\x00\xff\0z", 5)});
  node.workers.push_back({4, "fi_shm://1"});
  return node;
}

TEST(Peers, ARecordSurvivesItsText) {
  const auto again = parse_node(to_text(sample()), 3);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, sample());
}

TEST(Peers, BadRecordsAreRefusedByField) {
  const std::string good = to_text(sample());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto parsed = parse_node(text, 3);
    return parsed ? std::string("taken") : parsed.error().message;
  };
  EXPECT_EQ(with("\"node\":2", "\"node\":2"), "taken");
  EXPECT_THAT(with("\"node\":2", "\"node\":3"), HasSubstr("node: expected"));
  EXPECT_THAT(with("0200ff", "0200fg"), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("0200ff", "200ff"), HasSubstr("whole bytes"));
  EXPECT_THAT(with("\"rights\":7", "\"rights\":8"), HasSubstr("rights"));
  EXPECT_THAT(with("\"bytes\":4096", "\"bytes\":0"), HasSubstr("region index"));
  EXPECT_THAT(with("\"bytes\":4096", "\"bytes\":18446744073709551615"), HasSubstr("region index"));
  EXPECT_THAT(with("{", "["), HasSubstr("not JSON"));
}

TEST(Ring, KeepsItsOrderWhileItGrows) {
  Ring<int> ring(2);
  int in = 0, out = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i) ring.push(in++);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(ring.pop(), out++);
  }
  EXPECT_EQ(ring.size(), 50u);
  while (!ring.empty()) EXPECT_EQ(ring.pop(), out++);
  EXPECT_EQ(out, in);
}

}  // namespace
}  // namespace loch::fabric::ofi
