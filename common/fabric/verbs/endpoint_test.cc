// Tests that nodes, links and notices are the same after conversion to JSON and back, and that the error for
// a damaged text names the bad field.
#include "common/fabric/verbs/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

using testing::HasSubstr;

NodeRecord example_node() {
  NodeRecord node;
  node.node = 2;
  node.incarnation = 6;
  node.addresses = {{7, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, true, 4096},
                    {9, {0xfe, 0x80, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 9}, false, 2048}};
  node.rd_atomic_in = 16;
  node.rd_atomic_out = 128;
  node.qkey = 0x12345678;
  node.regions = {{"index", 0x7f0012345000, 4096, 0xdeadbeef}, {"data", 1, 1, 2}};
  node.workers = {{0, 17, {}}, {5, 0xfffffe, {{18, 0}, {0xffffff, 1}}}};
  return node;
}

LinkRecord example_link() { return {{1, 4, 2, 9, 3, Transport::uc}, 0xabcdef, 0x123456}; }

TEST(Endpoint, NodesGoThereAndBack) {
  const auto back = parse_node(to_text(example_node()), {3});
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(*back, example_node());
}

TEST(Endpoint, LinksGoThereAndBack) {
  const auto back = parse_links(to_text(std::vector{example_link(), LinkRecord{}}), {3});
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(*back, (std::vector{example_link(), LinkRecord{}}));
}

TEST(Endpoint, NoticesGoThereAndBack) {
  const auto back = parse_notice(to_text(Notice{Notice::Kind::fence, example_link(), 2, 99}), {3});
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->kind, Notice::Kind::fence);
  EXPECT_EQ(back->link, example_link());
  EXPECT_EQ(back->node, 2);
  EXPECT_EQ(back->number, 99u);
}

TEST(Endpoint, ANodeThatIsBackBringsItsRecord) {
  for (const auto kind : {Notice::Kind::back, Notice::Kind::here}) {
    const std::string text = to_text(Notice{kind, {}, 2, 7, example_node()});
    const auto back = parse_notice(text, {3});
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(back->record, example_node());
    EXPECT_EQ(back->number, 7u);
    for (const auto& [from, to] : {std::pair{"\"record\":", "\"other\":"},
                                   {"\"life\":6", "\"life\":4294967296"},
                                   {"\"mtu\":4096", "\"mtu\":4097"},
                                   {"\"grh\":true", "\"grh\":1"},
                                   {"\"rkey\":2}", "\"rkey\":-2}"}}) {
      std::string damaged = text;
      const auto at = damaged.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      damaged.replace(at, std::string_view(from).size(), to);
      EXPECT_FALSE(parse_notice(damaged, {3}).has_value()) << to;
    }
    EXPECT_FALSE(parse_notice(text, {2}).has_value());  // with 2 nodes, node id 2 is out of range
  }
}

// How a test damages a valid text: it replaces the first `from` by `to`. The parser's error must contain
// `names`.
struct Damage {
  const char *from, *to, *names;
};

TEST(Endpoint, DamagedNodesAreRefusedByField) {
  for (const Damage& damage : {Damage{"\"node\":2", "\"node\":3", "node"},
                               {"\"node\":2", "\"node\":-1", "node"},
                               {"\"lid\":7", "\"lid\":70000", "lid"},
                               {"\"mtu\":4096", "\"mtu\":1000", "mtu"},
                               {"[254,", "[", "gid"},
                               {"[254,", "[999,", "gid"},
                               {"\"qkey\":", "\"other\":", "qkey"},
                               {"\"bytes\":4096", "\"bytes\":0", "index"},
                               {"\"bytes\":4096", "\"bytes\":18446744073709551615", "index"},
                               {"\"name\":\"index\"", "\"name\":7", "name"},
                               {"16777214", "16777216", "ud_qpn"},
                               {"16777215", "16777216", "ud_also"},
                               {"16777215,1", "16777215,8", "ud_also"},
                               {"16777215,1", "16777215,1,1", "ud_also"},
                               {"\"mtu\":2048", "\"mtu\":2049", "mtu"},
                               {"{", "", "JSON"}}) {
    std::string text = to_text(example_node());
    const auto at = text.find(damage.from);
    ASSERT_NE(at, std::string::npos) << damage.from;
    text.replace(at, std::string_view(damage.from).size(), damage.to);
    const auto back = parse_node(text, {3});
    ASSERT_FALSE(back.has_value()) << damage.to;
    EXPECT_THAT(back.error().message, HasSubstr(damage.names));
  }
}

TEST(Endpoint, DamagedLinksAreRefused) {
  for (const char* text :
       {"", "{}", "[1]", "[[1,4,2,9,3,1,5]]", "[[3,4,2,9,3,1,5,6]]", "[[1,4,2,9,64,1,5,6]]",
        "[[1,4,2,9,3,2,5,6]]", "[[1,4,2,9,3,1,16777216,6]]", "[[1,4,2,9,3,1,5,\"6\"]]"}) {
    EXPECT_FALSE(parse_links(text, {3}).has_value()) << text;
  }
  EXPECT_FALSE(parse_notice("{\"kind\":99}", {3}).has_value());
  EXPECT_FALSE(parse_notice("[]", {3}).has_value());
}

}  // namespace
}  // namespace loch::fabric::verbs
