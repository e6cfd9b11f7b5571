// Tests the parts of the memcached and Redis baselines that need no server: addresses, the text protocols,
// settings, and the model of the kernel's TCP.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "baselines/address.h"
#include "baselines/kernel_path.h"
#include "baselines/module.h"
#include "baselines/server_process.h"
#include "baselines/settings.h"
#include "baselines/text.h"

namespace loch::baselines {
namespace {

TEST(Addresses, PortsAndPaths) {
  const auto all = parse_addresses("127.0.0.1:11211, [::1]:6379,/run/a.sock,host.example:1", "--x");
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 4U);
  EXPECT_EQ((*all)[0], (Address{"127.0.0.1", 11211, ""}));
  EXPECT_EQ((*all)[1], (Address{"::1", 6379, ""}));
  EXPECT_TRUE((*all)[2].is_unix());
  EXPECT_EQ((*all)[1].text(), "[::1]:6379");
  EXPECT_EQ((*all)[2].text(), "/run/a.sock");
  EXPECT_TRUE(parse_addresses("", "--x")->empty());
}

TEST(Addresses, RefusedInOneLineThatNamesTheFlag) {
  for (const char* bad : {"host", "host:", "host:0", "host:65536", "host:1x", ":1", "a b:1", "::1:5",
                          "a:1,,b:2", "a:1,a:1", "[]:3"}) {
    const auto all = parse_addresses(bad, "--memcached.address");
    ASSERT_FALSE(all) << bad;
    EXPECT_EQ(all.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(all.error().message.starts_with("--memcached.address: ")) << all.error().message;
  }
  EXPECT_FALSE(parse_addresses("/" + std::string(200, 'x'), "--x"));
}

kv::Key key_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), static_cast<std::uint32_t>(text.size())};
}

std::string key_text(System system, const std::string& key) {
  std::string out;
  write_key_text(system, key_of(key), out);
  return out;
}

TEST(KeyText, IsAnotherForEveryKeyAndFitForTheProtocol) {
  using namespace std::string_literals;
  EXPECT_EQ(key_text(System::memcached, "user1\0\0\0"s), "user1~~~");
  EXPECT_EQ(key_text(System::redis, "user1\0 \n"s), "user1\0 \n"s);
  EXPECT_EQ(key_text(System::memcached, "a b"), "~612062");
  std::set<std::string> seen;
  const std::string some[] = {"a"s,    "a\0"s, "a~"s,   "\0"s, "\0\0"s, "~"s,  "~61"s, "a\0b"s,
                              "\x7f"s, "a\r"s, "\xff"s, "A"s,  "b\0"s,  "~~"s, "61"s,  "a a"s};
  for (const std::string& key : some) {
    const std::string text = key_text(System::memcached, key);
    EXPECT_TRUE(seen.insert(text).second) << text;
    for (const char c : text) EXPECT_TRUE(c > ' ' && c < '\x7f');
  }
}

class Text : public ::testing::TestWithParam<System> {};

TEST_P(Text, RequestsAreReadAsTheyWereWritten) {
  const std::string key = "user6284781860667377211", value = "a\r\nb\r\nEND\r\n";
  for (const OpKind op : {OpKind::get, OpKind::put, OpKind::remove}) {
    std::string request;
    append_head(GetParam(), op, key, static_cast<std::uint32_t>(value.size()), request);
    if (op == OpKind::put) request += value + std::string(value_end);
    const auto size = static_cast<std::uint32_t>(op == OpKind::put ? value.size() : 0);
    EXPECT_EQ(request.size(), request_bytes(GetParam(), op, static_cast<std::uint32_t>(key.size()), size));
    ParsedRequest parsed;
    ASSERT_TRUE(parse_request(GetParam(), request, parsed));
    EXPECT_EQ(parsed.op, op);
    EXPECT_EQ(parsed.key_text, key);
    if (op == OpKind::put) EXPECT_EQ(request.substr(parsed.value_at, parsed.value_size), value);
    // A truncated request is refused, unless only its value is truncated.
    for (std::size_t cut = 0; cut < request.size(); ++cut) {
      ParsedRequest part;
      const bool is_one = parse_request(GetParam(), std::string_view(request).substr(0, cut), part);
      EXPECT_EQ(is_one, op == OpKind::put && cut >= parsed.value_at) << cut;
    }
  }
}

TEST_P(Text, RepliesAreReadAsTheyWereWritten) {
  using kv::OpStatus;
  for (const OpKind op : {OpKind::get, OpKind::put, OpKind::remove}) {
    for (const OpStatus status : {OpStatus::ok, OpStatus::not_found, OpStatus::table_full}) {
      if (op == OpKind::put ? status == OpStatus::not_found : status == OpStatus::table_full) continue;
      std::string reply;
      append_reply(GetParam(), op, status, "key", 5, reply);
      ParsedReply parsed;
      ASSERT_TRUE(parse_reply(GetParam(), op, reply, parsed)) << reply;
      EXPECT_EQ(parsed.status, status);
      const bool has_value = op == OpKind::get && status == OpStatus::ok;
      EXPECT_EQ(parsed.value_size, has_value ? 5U : 0U);
      if (status == OpStatus::table_full) continue;
      if (has_value) reply += "value" + std::string(reply_end(GetParam()));
      EXPECT_EQ(reply.size(), reply_bytes(GetParam(), op, status, 3, has_value ? 5 : 0));
    }
  }
  ParsedReply parsed;
  for (const char* other : {"", "HTTP/1.1 400 Bad Request\r\n", "$x\r\n", "VALUE key 0 -1\r\n", "ERROR\r\n"})
    EXPECT_FALSE(parse_reply(GetParam(), OpKind::get, other, parsed)) << other;
}

INSTANTIATE_TEST_SUITE_P(Both, Text, ::testing::Values(System::memcached, System::redis),
                         [](const auto& info) { return std::string(name(info.param)); });

kv::DeployConfig small() {
  kv::DeployConfig config;
  config.nodes = 3;
  config.server_workers = 1;
  config.key_size = 32;
  config.value_size = config.kept_value_bytes = 100;
  config.keys = config.max_keys = 1000;
  return config;
}

Result<Settings> decided(System system, const kv::DeployConfig& config,
                         const std::map<std::string, std::string>& set = {}) {
  kv::Options options(option_specs(system));
  for (const auto& [key, value] : set) EXPECT_TRUE(options.set(key, value)) << key;
  return decide(system, config, options, "");
}

TEST(BaselineSettings, OneServerANodeAndKeysSpreadOverAll) {
  const auto s = decided(System::memcached, small());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->servers, 3U);
  EXPECT_EQ(s->node_of(2), 2U);
  std::set<std::uint32_t> hit;
  for (int i = 0; i < 64; ++i) hit.insert(s->server_of(key_of("key" + std::to_string(i))));
  EXPECT_EQ(hit.size(), 3U);
  auto config = small();
  config.server_nodes = 1;
  EXPECT_EQ(decided(System::redis, config)->servers, 1U);
  EXPECT_EQ(decided(System::redis, config, {{"redis.servers", "4"}})->servers, 4U);
  EXPECT_EQ(decided(System::redis, config, {{"redis.address", "a:1,b:2"}})->servers, 2U);
}

TEST(BaselineSettings, RefusesInOneLine) {
  auto config = small();
  config.key_size = 251;
  EXPECT_FALSE(decided(System::memcached, config));
  EXPECT_TRUE(decided(System::redis, config));
  config = small();
  config.server_workers = 2;
  EXPECT_TRUE(decided(System::memcached, config));
  const auto two = decided(System::redis, config);
  ASSERT_FALSE(two);
  EXPECT_NE(two.error().message.find("--redis.servers"), std::string::npos);
  config.server_workers = 0;
  EXPECT_FALSE(decided(System::memcached, config));
  EXPECT_FALSE(decided(System::redis, small(), {{"redis.address", "a:1"}, {"redis.servers", "2"}}));
}

TEST(BaselineSettings, SomebodyElsesServerMayEvict) {
  const auto module = make_module(System::memcached);
  kv::Options options(module->options());
  EXPECT_EQ(module->consistency(options), kv::Consistency::linearizable);
  ASSERT_TRUE(options.set("memcached.address", "cache:11211"));
  EXPECT_EQ(module->consistency(options), kv::Consistency::lossy_cache);
}

TEST(Program, AMissingOneIsALineThatSaysHowToGetIt) {
  const auto none = find_program("", {"no-such-server-program"}, "", "memcached.binary", "memcached");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_NE(none.error().message.find("--memcached.binary"), std::string::npos);
  EXPECT_EQ(none.error().message.find('\n'), std::string::npos);
  const auto given = find_program("/etc/passwd", {"sh"}, "", "redis.binary", "redis-tools");
  ASSERT_FALSE(given);
  EXPECT_EQ(given.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(find_program("", {"no-such-server-program", "sh"}, "", "x", "y"));
}

// The most requests that a server answers, in millions a second, for requests of `bytes` bytes and replies of
// 10 bytes (Pilaf, table 1).
TEST(KernelPathOf, AddsUpToTheTable) {
  struct Row {
    Link link;
    std::uint32_t bytes;
    double million_a_second;
  };
  for (const Row& row :
       {Row{Link::ipoib, 16, 0.126}, Row{Link::ipoib, 1024, 0.122}, Row{Link::ipoib, 4096, 0.028},
        Row{Link::ethernet, 16, 0.120}, Row{Link::ethernet, 1024, 0.068}, Row{Link::ethernet, 4096, 0.029}}) {
    const KernelPath& path = kernel_path(row.link);
    const Nanos fabric = 300;  // ns of CPU time charged by the simulated fabric's messages
    const Nanos core = path.cpu_to_receive(row.bytes) + path.cpu_to_send(10) + fabric;
    const double slowest = static_cast<double>(std::max(core, path.on_link(row.bytes)));
    EXPECT_NEAR(1e3 / slowest, row.million_a_second, 0.02 * row.million_a_second)
        << name(row.link) << " " << row.bytes;
  }
}

TEST(LinksOf, CarryOneMessageAtATime) {
  Links links(3);
  // Times in ns, for a message that is ready at 100 and takes 10 on each link. It enters the receiver's link
  // while it is still leaving the sender's, so that it ends at 110 and not at 120.
  EXPECT_EQ(links.pass(0, 1, 100, 10), 110);
  EXPECT_EQ(links.pass(0, 2, 100, 10), 120);  // waits for the previous message at the sender's link
  EXPECT_EQ(links.pass(2, 1, 100, 10), 120);  // waits at the receiver's link for the message from node 0
  EXPECT_EQ(links.pass(1, 0, 100, 10), 110);  // the links' other direction is free
}

}  // namespace
}  // namespace loch::baselines
