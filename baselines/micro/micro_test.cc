// Tests the microbenchmarks as protocols: the work requests of an operation on every fabric, and which
// options are refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/bench.h"
#include "app/cli/registry.h"

namespace loch::cli {
namespace {

using Words = std::vector<std::string>;
using ::testing::HasSubstr;

Result<measure::PointResult> run(const Words& flags) {
  const kv::Registry registry = make_registry();
  LOCH_ASSIGN(const BenchOptions options, parse_bench(flags, registry));
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, options.protocol));
  LOCH_ASSIGN(auto result, run_point(options, *module, 0, Place{}));
  return std::move(result.point);
}
// Combines two lists of flags with their values; a flag in `more` replaces the same flag in `flags`.
Words with(Words flags, const Words& more) {
  for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
    const auto there = std::ranges::find(flags, more[i]);
    if (there != flags.end()) {
      *std::next(there) = more[i + 1];
    } else {
      flags.insert(flags.end(), {more[i], more[i + 1]});
    }
  }
  return flags;
}
measure::Tally tally_of(const measure::PointResult& point) {
  measure::Tally all;
  for (const measure::NodePart& node : point.nodes) all.merge(node.tally);
  return all;
}
std::string refusal(const Words& flags) {
  const auto result = run(flags);
  EXPECT_FALSE(result.has_value());
  return result ? "" : result.error().message;
}

Words verbs(const std::string& fabric, const Words& more) {
  const Words shape = {"--protocol",     "micro-verbs", "--fabric",     fabric, "--nodes",  "2",
                       "--server-nodes", "1",           "--clients",    "2",    "--keys",   "16",
                       "--key-size",     "16",          "--value-size", "256",  "--warmup", "0s",
                       "--operations",   "2000"};
  return with(shape, more);
}

class OnFabric : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, OnFabric, ::testing::Values("sim", "shm"));

TEST_P(OnFabric, AnOperationIsItsWorkRequests) {
  for (const std::string verb : {"read", "write", "send"}) {
    const auto point = run(verbs(GetParam(), {"--micro-verbs.verb", verb, "--micro-verbs.batch", "4",
                                              "--servers", verb == "send" ? "1" : "0", "--get", "1"}));
    ASSERT_TRUE(point) << point.error().message;
    const measure::Tally tally = tally_of(*point);
    const measure::RequestTotals& requests = tally.of(OpKind::get).requests;
    const std::uint64_t posted = verb == "read"    ? requests.read
                                 : verb == "write" ? requests.write
                                                   : requests.send;
    EXPECT_EQ(tally.completed(), 2000U) << verb;
    EXPECT_EQ(posted, 4 * tally.completed()) << verb;
    EXPECT_EQ(requests.payload_bytes, posted * 256) << verb;
    EXPECT_EQ(point->protocol_counters.at("errors"), 0) << verb;
    if (verb == "send") EXPECT_EQ(point->protocol_counters.at("received"), 4 * 2000);
  }
}

TEST_P(OnFabric, UnreliableTransportsDoTheSame) {
  for (const std::string transport : {"uc", "ud"}) {
    const auto point =
        run(verbs(GetParam(), {"--micro-verbs.verb", transport == "uc" ? "write" : "send", "--servers", "1",
                               "--micro-verbs.transport", transport, "--micro-verbs.unsignaled", "3",
                               "--micro-verbs.queue-pairs", "2", "--get", "0"}));
    ASSERT_TRUE(point) << point.error().message;
    const measure::Tally tally = tally_of(*point);
    EXPECT_EQ(tally.completed(), 2000U) << transport;
    const measure::RequestTotals& requests = tally.of(OpKind::put).requests;
    EXPECT_EQ(requests.write + requests.send, 4 * tally.completed()) << transport;
  }
}

// Requests go to random peers over many queue pairs, to random cache lines and with selective signaling.
// Every operation is still one READ or WRITE, and all operations succeed. Every node serves and drives load.
TEST_P(OnFabric, TrafficToRandomPeers) {
  for (const std::string interval : {"1", "4"}) {
    for (const std::string verb : {"read", "write"}) {
      const auto point = run(with(verbs(GetParam(), {}), {"--nodes",
                                                          "3",
                                                          "--server-nodes",
                                                          "0",
                                                          "--window",
                                                          "8",
                                                          "--get",
                                                          "1",
                                                          "--value-size",
                                                          "64",
                                                          "--micro-verbs.verb",
                                                          verb,
                                                          "--micro-verbs.peers",
                                                          "random",
                                                          "--micro-verbs.queue-pairs",
                                                          "20",
                                                          "--micro-verbs.buffer",
                                                          "64K",
                                                          "--micro-verbs.signal-interval",
                                                          interval}));
      ASSERT_TRUE(point) << point.error().message;
      const measure::Tally tally = tally_of(*point);
      const measure::RequestTotals& requests = tally.of(OpKind::get).requests;
      EXPECT_GE(tally.completed(), 2000U);
      EXPECT_EQ(requests.read + requests.write, tally.completed()) << verb << " " << interval;
      EXPECT_EQ(point->protocol_counters.at("errors"), 0);
      // a node that reads its own memory sends nothing for it
      if (GetParam() == std::string("sim") && verb == "read")
        EXPECT_GE(requests.wire_bytes, tally.completed() * 64);
    }
  }
}

// A worker may have three signaled requests outstanding, and waits before it posts a fourth. If every second
// READ is signaled, at most 6 READs are outstanding however large the window is; if one READ in 64 is
// signaled, the window of 16 is the limit.
TEST(MicroVerbs, SelectiveSignalingBoundsTheWindow) {
  const auto rate = [](const char* interval, const char* window) {
    const auto point = run(verbs("sim", {"--clients", "1", "--window", window, "--get", "1", "--value-size",
                                         "64", "--micro-verbs.signal-interval", interval}));
    EXPECT_TRUE(point) << point.error().message;
    return point ? static_cast<double>(tally_of(*point).completed()) / point->duration_s : 0;
  };
  const double bounded = rate("2", "16"), wide = rate("64", "16"), six = rate("64", "6");
  EXPECT_GT(wide, 1.5 * bounded);
  EXPECT_LT(bounded, 1.15 * six);
}

// With --micro-verbs.round 24, an operation is 24 work requests that are outstanding together.
TEST_P(OnFabric, ARoundIsManyWorkRequests) {
  const auto point =
      run(verbs(GetParam(), {"--micro-verbs.round", "24", "--operations", "200", "--get", "1"}));
  ASSERT_TRUE(point) << point.error().message;
  const measure::Tally tally = tally_of(*point);
  EXPECT_EQ(tally.completed(), 200U);
  EXPECT_EQ(tally.of(OpKind::get).requests.read, 24 * 200);
}

// Unreliable SENDs complete when they have left the sender. Credits limit the senders to the rate at which
// messages are received.
TEST_P(OnFabric, CreditsHoldSendersBack) {
  const Words sends = {"--micro-verbs.verb",
                       "send",
                       "--servers",
                       "1",
                       "--micro-verbs.transport",
                       "ud",
                       "--micro-verbs.credits",
                       "16",
                       "--micro-verbs.unsignaled",
                       "3"};
  const auto point = run(verbs(GetParam(), sends));
  ASSERT_TRUE(point) << point.error().message;
  EXPECT_EQ(tally_of(*point).completed(), 2000U);
  // A message may be lost only if it was sent without a credit, as a sender does that has waited for 100 us.
  // In simulation none waits so long; in real time all do while the server's thread has no core.
  const double sent_in_vain = point->protocol_counters.at("without_credit");
  if (GetParam() == std::string("sim")) EXPECT_EQ(sent_in_vain, 0);
  EXPECT_LT(sent_in_vain, 4 * 2000);
  EXPECT_GE(point->protocol_counters.at("received") + sent_in_vain, 4 * 2000 - 32);
}

TEST_P(OnFabric, EveryFaaCounts) {
  const auto point = run({"--protocol",
                          "micro-atomic",
                          "--fabric",
                          GetParam(),
                          "--nodes",
                          "2",
                          "--clients",
                          "2",
                          "--keys",
                          "16",
                          "--key-size",
                          "16",
                          "--value-size",
                          "8",
                          "--warmup",
                          "0s",
                          "--operations",
                          "2000",
                          "--micro-atomic.counters",
                          "7",
                          "--micro-atomic.batch",
                          "3"});
  ASSERT_TRUE(point) << point.error().message;
  EXPECT_EQ(point->protocol_counters.at("counted"), 3 * 2000);
}

Words echo(const std::string& fabric, const Words& more) {
  return with({"--protocol",   "micro-echo", "--fabric", fabric, "--nodes",  "2",  "--server-nodes", "1",
               "--clients",    "2",          "--window", "2",    "--keys",   "16", "--key-size",     "16",
               "--value-size", "256",        "--get",    "0.5",  "--warmup", "0s", "--operations",   "2000"},
              more);
}

// The request channel adds 24 bytes to a request and 8 bytes to a reply. A GET's request has a payload of 8
// bytes and its reply one of 256 bytes; a PUT's request has 256 bytes and its reply 8 bytes.
TEST_P(OnFabric, AnEchoByWriteIsTwoWrites) {
  const auto point = run(echo(GetParam(), {}));
  ASSERT_TRUE(point) << point.error().message;
  const measure::Tally tally = tally_of(*point);
  EXPECT_EQ(tally.completed(), 2000U);
  for (const OpKind kind : {OpKind::get, OpKind::put}) {
    const measure::RequestTotals& requests = tally.of(kind).requests;
    EXPECT_EQ(requests.write, 2 * tally.of(kind).total());
    EXPECT_EQ(requests.payload_bytes, (256 + 8 + 24 + 8) * tally.of(kind).total());
  }
  EXPECT_EQ(point->protocol_counters.at("answered"), 2000);
}

// One of two server workers shares its core with a background worker. A client that only sends to the server
// worker with a core of its own is not slowed down.
TEST_P(OnFabric, AnEchoMayKeepToOneServer) {
  if (GetParam() != std::string("sim")) GTEST_SKIP() << "needs simulated background workers";
  const auto completed = [](const char* server) {
    const auto point = run(
        {"--protocol",  "micro-echo", "--nodes",    "2",      "--server-nodes",      "1",   "--clients", "2",
         "--keys",      "16",         "--key-size", "16",     "--value-size",        "8",   "--get",     "1",
         "--warmup",    "30ms",       "--duration", "60ms",   "--servers",           "2",   "--hogs",    "1",
         "--hog-nodes", "1",          "--hog-pin",  "shared", "--micro-echo.server", server});
    EXPECT_TRUE(point) << point.error().message;
    return point ? tally_of(*point).completed() : 0;
  };
  const auto in_turn = completed("turns"), one = completed("one");
  EXPECT_GT(in_turn, 0U);
  EXPECT_GT(one, in_turn * 5 / 4);
}

TEST_P(OnFabric, AnEchoBySendIsAnsweredByASend) {
  for (const std::string transport : {"rc", "uc", "ud"}) {
    const auto point =
        run(echo(GetParam(), {"--micro-echo.by", "send", "--micro-echo.transport", transport}));
    ASSERT_TRUE(point) << point.error().message;
    const measure::Tally tally = tally_of(*point);
    // On real-time fabrics a datagram may arrive before a receive buffer is posted: then the datagram is
    // lost, and its operation gets no reply.
    const std::uint64_t lost = transport != "rc" && GetParam() != std::string("sim") ? 8 : 0;
    EXPECT_GE(tally.completed(), 2000U - lost) << transport;
    const std::uint64_t unanswered = 2000 - tally.completed();
    std::uint64_t payload = 0, sent = 0,
                  // The sums cover GETs and PUTs, because a reply to a GET may end a waiting PUT of the same
                  // worker.
        received = 0;
    for (const OpKind kind : {OpKind::get, OpKind::put}) {
      const measure::RequestTotals& requests = tally.of(kind).requests;
      sent += requests.send;
      received += requests.recv;
      payload += requests.payload_bytes;
    }
    EXPECT_EQ(sent, 2 * tally.total() - unanswered) << transport;
    EXPECT_EQ(received, tally.total() - unanswered) << transport;
    EXPECT_LE(payload, (8 + 256) * tally.total()) << transport;
    EXPECT_GE(payload, (8 + 256) * (tally.total() - unanswered)) << transport;
    EXPECT_EQ(point->protocol_counters.at("answered"), static_cast<double>(tally.completed())) << transport;
  }
}

Words lookups(const std::string& fabric, const Words& more) {
  return with({"--protocol", "micro-cuckoo", "--fabric", fabric, "--nodes", "1", "--keys", "50000",
               "--key-size", "23", "--get", "1", "--warmup", "0s", "--operations", "20000"},
              more);
}

// Linear probing accesses (1 + 1 / (1 - fill)) / 2 slots on average (Knuth). The cuckoo table never accesses
// more slots than it has hash functions.
TEST_P(OnFabric, LookUpsTakeTheSlotsThatTheTableSays) {
  for (const std::string table : {"cuckoo", "linear"}) {
    const auto point =
        run(lookups(GetParam(), {"--micro-cuckoo.table", table, "--micro-cuckoo.fill", "0.75"}));
    ASSERT_TRUE(point) << point.error().message;
    const measure::Tally tally = tally_of(*point);
    const auto& counters = point->protocol_counters;
    EXPECT_EQ(tally.completed(), 20000U) << table;
    EXPECT_EQ(counters.at("missed"), 0) << table;
    EXPECT_NEAR(counters.at("slots"), 50000 / 0.75, 1) << table;
    const measure::RequestTotals& requests = tally.of(OpKind::get).requests;
    const double mean = static_cast<double>(requests.local_accesses) / 20000;
    EXPECT_NEAR(mean / counters.at("probes_mean"), 1, table == "linear" ? 0.15 : 0.02) << table;
    EXPECT_EQ(requests.read + requests.write + requests.send, 0U) << table;
    if (table == "linear") {
      EXPECT_NEAR(counters.at("probes_mean"), 2.5, 0.15);
      EXPECT_GT(counters.at("probes_max"), 30);
    } else {
      EXPECT_LT(counters.at("probes_mean"), 1.7);
      EXPECT_EQ(counters.at("probes_max"), 3);
    }
  }
}

TEST(MicroRefuses, WhatCannotBe) {
  EXPECT_THAT(refusal(lookups("sim", {"--micro-cuckoo.fill", "0.97"})), HasSubstr("no place for key"));
  EXPECT_THAT(refusal(lookups("sim", {"--keys", "0"})), HasSubstr("keys"));
  EXPECT_THAT(refusal(echo("sim", {"--servers", "0"})), HasSubstr("--servers"));
  EXPECT_THAT(refusal(echo("sim", {"--micro-echo.transport", "ud"})), HasSubstr("micro-echo.by send"));

  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.transport", "uc"})), HasSubstr("READs need rc"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.verb", "write", "--micro-verbs.transport", "ud"})),
              HasSubstr("datagram"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.verb", "send", "--servers", "0"})),
              HasSubstr("--servers"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.header-only", "true"})), HasSubstr("SEND"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.credits", "8"})), HasSubstr("uc or ud"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.batch", "2", "--micro-verbs.unsignaled", "2"})),
              HasSubstr("unsignaled"));
  EXPECT_THAT(refusal(verbs("sim", {"--nodes", "3", "--micro-verbs.direction", "outbound"})),
              HasSubstr("--server-nodes 2"));
  EXPECT_THAT(
      refusal(verbs("sim", {"--nodes", "3", "--server-nodes", "2", "--micro-verbs.direction", "inbound"})),
      HasSubstr("--server-nodes 1"));
  EXPECT_THAT(refusal(verbs("sim", {"--micro-verbs.verb", "write", "--micro-verbs.inline", "on",
                                    "--value-size", "4K"})),
              HasSubstr("inlines"));
  const std::string interval = "--micro-verbs.signal-interval";
  EXPECT_THAT(refusal(verbs("sim", {interval, "2", "--micro-verbs.batch", "2"})), HasSubstr("batch"));
  EXPECT_THAT(refusal(verbs("sim", {interval, "2", "--value-size", "4"})), HasSubstr("8 bytes"));
  EXPECT_THAT(refusal(verbs("sim", {interval, "2", "--micro-verbs.verb", "send", "--servers", "1"})),
              HasSubstr("READs and WRITEs"));
  EXPECT_THAT(refusal(verbs(
                  "sim", {"--micro-verbs.peers", "random", "--micro-verbs.verb", "send", "--servers", "1"})),
              HasSubstr("READs and WRITEs"));
}

// A regression test, not evidence for the simulator, which was calibrated on these published rates: it checks
// that the load generator, driving the microbenchmarks as protocols, reaches the rates that the calibration's
// own request loops reach.
struct Card {
  const char* what;
  double mops;  // published million work requests (or echoes) a second
  Words flags;
};
TEST(MicroProtocols, RegressionGuardTheCalibratedRatesOfTheCards) {
  const Words common = {"--fabric", "sim", "--keys",   "16",    "--key-size", "16",
                        "--get",    "1",   "--warmup", "100us", "--duration", "300us"};
  const Words apt = {"--hardware", "connectx3-56g-ib", "--nodes", "13",           "--server-nodes",
                     "1",          "--clients",        "4",       "--value-size", "32"};
  const Words cib = {"--hardware", "connect-ib-2x56g", "--nodes", "15", "--clients", "14"};
  const std::vector<Card> cards = {
      {"inbound READ (V145)", 26,
       with(apt, {"--protocol", "micro-verbs", "--window", "16", "--micro-verbs.direction", "inbound"})},
      {"echo by SEND (V145)", 21,
       with(apt, {"--protocol", "micro-echo", "--window", "4", "--servers", "6", "--micro-echo.by", "send",
                  "--micro-echo.transport", "ud", "--micro-echo.small", "32"})},
      {"batched SENDs (V167)", 101.6 / 16,
       with(cib, {"--protocol",
                  "micro-verbs",
                  "--window",
                  "8",
                  "--server-nodes",
                  "14",
                  "--servers",
                  "2",
                  "--value-size",
                  "60",
                  "--micro-verbs.verb",
                  "send",
                  "--micro-verbs.transport",
                  "ud",
                  "--micro-verbs.batch",
                  "16",
                  "--micro-verbs.queue-pairs",
                  "4",
                  "--micro-verbs.direction",
                  "outbound"})},
      {"RECVs (V168)", 82,
       with(cib, {"--protocol", "micro-verbs", "--window", "2", "--server-nodes", "1", "--servers", "14",
                  "--value-size", "60", "--micro-verbs.verb", "send", "--micro-verbs.transport", "ud",
                  "--micro-verbs.credits", "1024"})},
      {"atomics over 4096 counters (V178)", 52,
       with(cib, {"--protocol", "micro-atomic", "--window", "4", "--server-nodes", "1", "--value-size", "8",
                  "--micro-atomic.counters", "4096"})},
  };
  for (const Card& card : cards) {
    const auto point = run(with(common, card.flags));
    ASSERT_TRUE(point) << card.what << ": " << point.error().message;
    const double mops = static_cast<double>(tally_of(*point).completed()) / point->duration_s * 1e-6;
    EXPECT_NEAR(mops / card.mops, 1, 0.05) << card.what << ": " << mops;
  }
}

}  // namespace
}  // namespace loch::cli
