// Tests lost messages, broken connections, dead servers, and three known faults of the published protocol (P1
// to P3 in docs/protocols/pilaf.md).
#include <gtest/gtest.h>

#include "common/fabric/memory.h"
#include "pilaf_em/test_run.h"

namespace loch::pilaf::testing {
namespace {

using fabric::sim::ScheduledFault;
using kv::OpStatus;

coro::Task<void> put_and_get(TestRun* run, std::size_t w, std::uint64_t operations, std::uint64_t* failed) {
  Hand hand = run->hand(w);
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::uint64_t key = i % 5 * run->workers() + w;  // each key has only one writer, this worker
    const kv::OpResult put = co_await hand.put(key, 1'000 + i);
    *failed += put.status == OpStatus::ok ? 0 : 1;
    const kv::OpResult got = co_await hand.get(key);
    const bool is_mine = got.status == OpStatus::ok && hand.is_whole && hand.seen == 1'000 + i;
    *failed += is_mine || put.status != OpStatus::ok ? 0 : 1;
  }
}

TEST(Losses, MessagesAreSentAgainAndExecutedOnce) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    for (const char* transport : {"uc", "ud"}) {
      fabric::sim::SimFaults faults;
      faults.uc_loss = faults.ud_loss = 0.1;
      faults.ud_reorder = 0.2;
      TestRun run(make_fabric("sim", 3, 5, faults),
                  {.protocol = protocol,
                   .config = shape_of(3, 1, 60),
                   .options = {{"pilaf.messages", transport}, {"pilaf.reply-timeout", "100us"}}});
      std::uint64_t failed = 0;
      for (std::size_t w = 0; w < 3; ++w) run.start(w, [&, w] { return put_and_get(&run, w, 100, &failed); });
      ASSERT_EQ(run.run(), fabric::RunEnd::finished);
      EXPECT_EQ(failed, 0u);
      EXPECT_GT(run.counter("requests_repeated"), 10);
      EXPECT_GT(run.counter("requests_repeats_seen"), 5);
      const double changes = run.counter("updates_in_place") + run.counter("inserts");
      EXPECT_EQ(changes, 300 + 60) << "each PUT once, and the preload";
    }
  }
}

// A cut link breaks connections in both directions; clients and servers reconnect, and no request is executed
// twice.
TEST(Losses, ConnectionsAreMadeAnew) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    fabric::sim::SimFaults faults;
    for (Nanos at = 200'000; at < 2'000'000'000; at += 150'000'000) {
      const auto node = static_cast<fabric::NodeId>(at / 150'000'000 % 3);
      faults.schedule.push_back(
          {.kind = ScheduledFault::Kind::cut, .node = node, .at = at, .span = 60'000'000});
    }
    TestRun run(make_fabric("sim", 3, 5, faults), {.protocol = protocol,
                                                   .config = shape_of(3, 1, 60),
                                                   .options = {{"pilaf.reply-timeout", "5ms"},
                                                               {"pilaf.reconnect-timeout", "100ms"},
                                                               {"pilaf.patience", "10s"}}});
    std::uint64_t failed = 0;
    for (std::size_t w = 0; w < 3; ++w)
      run.start(w, [&, w] { return put_and_get(&run, w, 20'000, &failed); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(failed, 0u);
    EXPECT_GT(run.counter("reconnects"), 0);
    EXPECT_EQ(run.counter("updates_in_place") + run.counter("inserts"), 60'000 + 60);
  }
}

kv::DeployConfig one_server_of(std::uint64_t keys) {
  kv::DeployConfig config = shape_of(2, 1, keys);
  config.server_nodes = 1;
  return config;
}

coro::Task<void> without_server(TestRun* run, std::vector<kv::OpResult>* out) {
  Hand hand = run->hand(0);
  const kv::OpResult before = co_await hand.put(1, 5);
  EXPECT_EQ(before.status, OpStatus::ok);
  co_await run->worker(0).sleep_until(2'000'000);
  const kv::OpResult put = co_await hand.put(1, 6);
  out->push_back(put);
  const kv::OpResult got = co_await hand.get(1);
  out->push_back(got);
  EXPECT_TRUE(got.status != OpStatus::ok || hand.seen == 5);
}

// When a server thread dies, GETs by READ still succeed, and PUTs time out with an unknown effect.
TEST(Losses, ADeadServerIsStillRead) {
  for (const char* protocol : {"pilaf", "pilaf-vo"}) {
    fabric::sim::SimFaults faults;
    faults.schedule.push_back({.kind = ScheduledFault::Kind::kill, .node = 0, .worker = 0, .at = 1'000'000});
    TestRun run(make_fabric("sim", 2, 5, faults),
                {.protocol = protocol,
                 .config = one_server_of(20),
                 .options = {{"pilaf.patience", "10ms"}, {"pilaf.reply-timeout", "1ms"}}});
    std::vector<kv::OpResult> results;
    run.start(0, [&] { return without_server(&run, &results); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    ASSERT_EQ(results.size(), 2u);
    EXPECT_EQ(results[0].status, OpStatus::timeout);
    EXPECT_EQ(results[0].effect, kv::Effect::unknown);
    EXPECT_EQ(results[1].status, std::string_view(protocol) == "pilaf" ? OpStatus::ok : OpStatus::timeout);
  }
}

// When a server's node has lost its memory, a client that READs it finds no root (the table's descriptor) and
// returns an error.
TEST(Losses, MemoryThatWasLostIsNoMiss) {
  fabric::sim::SimFaults faults;
  faults.schedule.push_back(
      {.kind = ScheduledFault::Kind::crash, .node = 0, .at = 1'000'000, .span = 100'000});
  TestRun run(
      make_fabric("sim", 2, 5, faults),
      {.config = one_server_of(20), .options = {{"pilaf.patience", "10ms"}, {"pilaf.reply-timeout", "1ms"}}});
  std::vector<kv::OpResult> results;
  run.start(0, [&] { return without_server(&run, &results); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[1].status, OpStatus::ok);
  EXPECT_NE(results[1].status, OpStatus::not_found);
}

// Known fault P3 (docs/protocols/pilaf.md): the reply to a PUT that made the table grow is lost, and its
// client sends the PUT again after another client's newer PUT. The published server executes it again, which
// overwrites the newer value.
coro::Task<void> grow_it(TestRun* run, std::size_t w, std::uint64_t keys, std::uint64_t* repeated) {
  Hand hand = run->hand(w);
  for (std::uint64_t i = 1; i < keys; ++i) {  // all keys are new except 0, which was preloaded
    const kv::OpResult put = co_await hand.put(i, 1);
    EXPECT_EQ(put.status, OpStatus::ok);
    *repeated += put.retries;
  }
}

TEST(Published, AGrowthLosesItsReply) {
  for (const bool is_fixed : {false, true}) {
    TestRun::Shape shape{.config = one_server_of(1),
                         .options = {{"pilaf.variant", "published"},
                                     {"pilaf.mend-p3", is_fixed ? "true" : "false"},

                                     {"pilaf.initial-slots", "3"},
                                     {"pilaf.table-growths", "8"},
                                     {"pilaf.reply-timeout", "100us"}}};
    shape.config.max_keys = 40;
    TestRun run(make_fabric("sim", 2, 5), shape);
    std::uint64_t repeated = 0;
    run.start(0, [&] { return grow_it(&run, 0, 40, &repeated); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_GT(run.counter("table_growths"), 2);
    EXPECT_EQ(repeated > 0, !is_fixed);
    EXPECT_EQ(run.counter("updates_in_place") > 0, !is_fixed) << "a PUT was executed twice";
  }
}

}  // namespace
}  // namespace loch::pilaf::testing
