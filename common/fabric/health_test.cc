// Tests of the comparison of two readings of a port's counters, and of the verdict on the network.
#include "common/fabric/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::fabric {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const CounterValues quiet = {{"packet_seq_err", 7}, {"local_ack_timeout_err", 0}, {"out_of_sequence", 3},
                             {"symbol_error", 0},   {"port_xmit_wait", 100},      {"rx_read_requests", 5}};

CounterValues with(CounterValues values, const std::string& counter, std::uint64_t value) {
  values[counter] = value;
  return values;
}

PortReport port_of(NodeId node, const std::string& host, PortHealth health) {
  return {.node = node,
          .host = host,
          .port = "mlx5_0/1",
          .device = "",
          .is_lost = false,
          .health = std::move(health)};
}

std::string verdict_of(const std::vector<PortReport>& ports) { return judge(ports).verdict; }

TEST(Health, EqualReadingsHaveNoChange) {
  const PortHealth health = compare(quiet, quiet);
  EXPECT_TRUE(health.sees_transport);
  EXPECT_EQ(health.counters, 5);  // rx_read_requests is no known counter of errors
  EXPECT_THAT(health.changes, IsEmpty());
}

TEST(Health, WhatWasCountedBeforeTheRunIsNotTheRuns) {
  EXPECT_THAT(compare(quiet, with(quiet, "packet_seq_err", 319)).changes,
              ElementsAre(Pair("packet_seq_err", CounterChange{312, false})));
}

// For a counter that wraps at 32 bits, a difference of two 64-bit numbers alone would be about 2^64.
TEST(Health, ACounterThatWrapsAt32BitsGoesOn) {
  const CounterValues before = with(quiet, "packet_seq_err", 0xfffffffbu);
  EXPECT_THAT(compare(before, with(quiet, "packet_seq_err", 4)).changes,
              ElementsAre(Pair("packet_seq_err", CounterChange{9, false})));
}

TEST(Health, ACounterThatWasResetHasCountedAtLeastItsValue) {
  for (const std::uint64_t before : {1'000ull, 1ull << 40}) {
    EXPECT_THAT(compare(with(quiet, "packet_seq_err", before), with(quiet, "packet_seq_err", 12)).changes,
                ElementsAre(Pair("packet_seq_err", CounterChange{12, true})))
        << before;
  }
  // A counter that falls a little within the upper half of 32 bits was reset and did not wrap: no run counts
  // nearly 2^32 errors.
  EXPECT_THAT(
      compare(with(quiet, "packet_seq_err", 0xffffffffu), with(quiet, "packet_seq_err", 0xfffffff0u)).changes,
      ElementsAre(Pair("packet_seq_err", CounterChange{0xfffffff0u, true})));
}

// A counter that is reset to 0 may have counted errors before the reset, so the 0 does not show that the port
// is healthy.
TEST(Health, ACounterThatWasResetToZeroIsNoSignOfHealth) {
  const PortHealth health = compare(quiet, with(quiet, "packet_seq_err", 0));
  EXPECT_THAT(health.changes, ElementsAre(Pair("packet_seq_err", CounterChange{0, true})));
  EXPECT_EQ(verdict_of({port_of(0, "n7", health)}), "at least 0 retransmissions on n7");
}

TEST(Health, PortCountersStopAtTheirLargestValue) {
  const CounterValues full = with(quiet, "symbol_error", 65535);
  EXPECT_THAT(compare(full, full).changes, ElementsAre(Pair("symbol_error", CounterChange{0, true})));
  EXPECT_THAT(compare(with(quiet, "symbol_error", 65000), full).changes,
              ElementsAre(Pair("symbol_error", CounterChange{535, true})));
  EXPECT_THAT(compare(full, with(quiet, "symbol_error", 2)).changes,
              ElementsAre(Pair("symbol_error", CounterChange{2, true})));
}

TEST(Health, SurvivesTheWayThroughAReport) {
  CounterValues after = with(quiet, "packet_seq_err", 319);
  after["out_of_sequence"] = 1;
  const PortHealth health = compare(quiet, after);
  std::map<std::string, double> counters = to_counters(health);
  counters["verbs.posted"] = 12;
  EXPECT_EQ(health_from(counters), health);
  EXPECT_EQ(health_from({{"verbs.posted", 12}}), PortHealth());
  EXPECT_EQ(health_from({{"port.packet_seq_err", -1e300}}).changes.at("packet_seq_err").count, 0);
}

TEST(Verdict, CleanIsSaidOfReadingsOnly) {
  const PortHealth clean = compare(quiet, quiet);
  EXPECT_EQ(verdict_of({port_of(0, "n0", clean), port_of(1, "n1", clean)}), "clean");
  EXPECT_FALSE(judge(std::vector{port_of(0, "n0", clean)}).is_sick);
  EXPECT_EQ(verdict_of({port_of(0, "n0", compare({}, {}))}), "not seen: no counters");
  EXPECT_EQ(verdict_of({port_of(0, "n0", compare({{"rx_bytes", 1}}, {{"rx_bytes", 1}}))}),
            "not seen: no counters");
  EXPECT_EQ(verdict_of({port_of(0, "n0", compare({{"symbol_error", 0}}, {{"symbol_error", 0}}))}),
            "not seen: no counters of retransmissions");
  EXPECT_EQ(verdict_of({port_of(0, "n0", compare(quiet, {}))}),
            "not seen: the counters vanished during the run");
  EXPECT_EQ(verdict_of({port_of(0, "n0", clean), port_of(1, "n1", {})}), "not seen on n1: no counters");
  PortReport lost = port_of(1, "n1", {});
  lost.is_lost = true;
  EXPECT_EQ(verdict_of({port_of(0, "n0", clean), lost}), "not seen on n1: lost");
}

TEST(Verdict, NamesTheNodeAndWhatItCounted) {
  const PortHealth clean = compare(quiet, quiet);
  CounterValues after = with(quiet, "packet_seq_err", 307);
  after["local_ack_timeout_err"] = 12;
  const NetworkState state =
      judge(std::vector{port_of(0, "n0", clean), port_of(7, "n7", compare(quiet, after))});
  EXPECT_EQ(state.verdict, "312 retransmissions on n7");
  EXPECT_TRUE(state.is_sick);
  ASSERT_EQ(state.symptoms.size(), 2);
  EXPECT_EQ(state.symptoms[1].counter, "packet_seq_err");
  EXPECT_EQ(state.symptoms[1].node, 7);
  EXPECT_EQ(state.symptoms[1].change.count, 300);
  EXPECT_EQ(
      verdict_of({port_of(0, "n0", {}), port_of(7, "n7", compare(quiet, with(quiet, "symbol_error", 1)))}),
      "1 damaged packet or symbol on n7; not seen on n0: no counters");
}

TEST(Verdict, TheLargestThreeAreNamed) {
  std::vector<PortReport> ports;
  for (NodeId node = 0; node < 5; ++node)
    ports.push_back(
        port_of(node, "n" + std::to_string(node), compare(quiet, with(quiet, "out_of_sequence", 4u + node))));
  EXPECT_EQ(
      verdict_of(ports),
      "5 requests out of order on n4, 4 requests out of order on n3, 3 requests out of order on n2, 2 more");
}

TEST(Verdict, CongestionIsNoFaultAndWaitingIsNone) {
  const CounterValues start = with(quiet, "np_cnp_sent", 0);
  const NetworkState marked =
      judge(std::vector{port_of(0, "n0", compare(start, with(start, "np_cnp_sent", 5)))});
  EXPECT_EQ(marked.verdict, "clean, but congestion: 5 congestion notifications on n0");
  EXPECT_FALSE(marked.is_sick);
  const NetworkState busy =
      judge(std::vector{port_of(0, "n0", compare(start, with(start, "port_xmit_wait", 900)))});
  EXPECT_EQ(busy.verdict, "clean");
  ASSERT_EQ(busy.symptoms.size(), 1);
  EXPECT_EQ(busy.symptoms[0].kind, SymptomKind::wait);
}

TEST(Verdict, ASharedPortCountsOnceAndPortsOfOneHostAreToldApart) {
  const PortHealth sick = compare(quiet, with(quiet, "packet_seq_err", 9));
  EXPECT_EQ(verdict_of({port_of(0, "n0", sick), port_of(1, "n0", sick)}), "2 retransmissions on n0");
  PortReport other = port_of(1, "n0", compare(quiet, quiet));
  other.port = "mlx5_1/1";
  EXPECT_EQ(verdict_of({port_of(0, "n0", sick), other}), "2 retransmissions on node 0");
}

// A process that uses two ports reports both, and the verdict names the device.
TEST(Health, EachRailOfANodeIsJudged) {
  const PortHealth well = compare(quiet, quiet), sick = compare(quiet, with(quiet, "packet_seq_err", 9));
  std::map<std::string, double> counters;
  for (const auto& [name, value] : to_counters(well)) counters[rail_prefix(0) + name] = value;
  for (const auto& [name, value] : to_counters(sick)) counters[rail_prefix(1) + name] = value;
  EXPECT_EQ(health_from(counters), well);
  EXPECT_EQ(health_from(counters, 1), sick);
  EXPECT_EQ(health_from(counters, 2), PortHealth{});
  std::vector<PortReport> ports = {port_of(0, "n0", health_from(counters, 0)),
                                   port_of(0, "n0", health_from(counters, 1))};
  ports[0].device = "mlx5_0";
  ports[1].device = "mlx5_1";
  ports[1].port = "mlx5_1/1";
  EXPECT_EQ(verdict_of(ports), "2 retransmissions on n0 (mlx5_1)");
  EXPECT_EQ(judge(ports).symptoms.at(0).device, "mlx5_1");
}

}  // namespace
}  // namespace loch::fabric
