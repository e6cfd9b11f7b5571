// Tests from which measurements the clocks of a history are compared, and the result's report on the clocks.
#include "app/cli/history_clocks.h"

#include <gtest/gtest.h>

namespace loch::cli {
namespace {

constexpr Nanos one_second = 1'000'000'000;

workloads::ClockReport two_processes(Nanos drifted) {
  workloads::ClockReport report;
  report.samples[1] = {{0, 0, 700, 1'500}, {one_second, -drifted, 800, 1'600}};
  report.control_error = 900'000;
  return report;
}

TEST(HistoryClocks, ARunOfOneProcessHasNone) {
  const HistoryClocks clocks = history_clocks(std::nullopt, 1);
  EXPECT_TRUE(clocks.maps.empty());
  EXPECT_TRUE(clocks.report.is_null());
  EXPECT_EQ(clock_fault({{"clocks", clocks.report}}), "");
}

TEST(HistoryClocks, TheAlignmentsOverTheFabricCount) {
  const HistoryClocks clocks = history_clocks(two_processes(20'000), 2);
  ASSERT_EQ(clocks.maps.size(), 2u);
  EXPECT_TRUE(clocks.maps[0].samples().empty());
  EXPECT_EQ(clocks.maps[1].latest(one_second) - clocks.maps[1].earliest(one_second), 2 * 800);
  EXPECT_EQ(clocks.report["nodes"][0]["method"], "fabric");
  EXPECT_EQ(clocks.report["nodes"][0]["round_trip_ns"], 1'500);
  EXPECT_EQ(clocks.report["error_ns"],
            1'252);  // between 700 and 800, and about a quarter of 2 ppm of a second
  EXPECT_EQ(clock_fault({{"clocks", clocks.report}}), "");
}

// A clock that drifts by more than the allowed parts per million is a fault; if a very large drift is
// allowed, the same clock is none.
TEST(HistoryClocks, AClockThatDriftsBeyondTheBoundIsAFault) {
  const HistoryClocks clocks = history_clocks(two_processes(400'000), 2);
  EXPECT_EQ(clocks.report["nodes"][0]["is_trusted"], false);
  EXPECT_NE(clock_fault({{"clocks", clocks.report}}).find("the clock of node 1 drifted by at least 398 ppm"),
            std::string::npos)
      << clocks.fault;
  EXPECT_EQ(history_clocks(two_processes(400'000), 2, {.drift_ppm = 1e9}).fault, "");
}

TEST(HistoryClocks, ProcessesOnAFabricOfOneMachineShareItsClock) {
  workloads::ClockReport report = two_processes(800);
  report.is_one_clock = true;
  const HistoryClocks clocks = history_clocks(report, 2);
  EXPECT_EQ(clocks.maps[1].latest(one_second), one_second);
  EXPECT_EQ(clocks.maps[1].earliest(one_second), one_second);
  EXPECT_EQ(clocks.report["nodes"][0]["method"], "kernel");
  EXPECT_EQ(clocks.report["error_ns"], 0);
  report = two_processes(400'000);
  report.is_one_clock = true;
  EXPECT_NE(history_clocks(report, 2).fault, "");
}

// Processes in different time namespaces of one kernel: the fabric cannot tell, the comparisons do.
TEST(HistoryClocks, AnotherClockOfTheSameMachineIsTranslated) {
  workloads::ClockReport report = two_processes(801);
  report.is_one_clock = true;
  const HistoryClocks clocks = history_clocks(report, 2);
  EXPECT_EQ(clocks.report["nodes"][0]["method"], "fabric");
  EXPECT_EQ(clocks.maps[1].latest(one_second), one_second - 801 + 800);
  EXPECT_GT(clocks.report["error_ns"], 0);
}

// The control plane's errors are those against rank 0, and the reference need not be rank 0.
TEST(HistoryClocks, BothErrorsCountIfNeitherProcessIsTheLowestRank) {
  workloads::ClockReport report;
  report.reference = 1;
  report.control_error = 10'000;
  const HistoryClocks clocks = history_clocks(report, 3);
  EXPECT_EQ(clocks.report["error_ns"], 20'000);
}

// The control plane knows that both processes run on one kernel, and reports no clock error. The offset that
// was measured over the fabric is used nevertheless.
TEST(HistoryClocks, ProcessesOfOneHostOverANicAreAligned) {
  workloads::ClockReport report = two_processes(20'000);
  report.control_error = 0;
  const HistoryClocks clocks = history_clocks(report, 2);
  EXPECT_EQ(clocks.report["nodes"][0]["method"], "fabric");
  EXPECT_EQ(clocks.maps[1].latest(one_second), one_second - 20'000 + 800);
}

TEST(HistoryClocks, AProcessThatDiedHasWhatItTold) {
  workloads::ClockReport report;
  report.told[1] = {5'000, -30, 400};
  report.control_error = 900'000;
  const HistoryClocks clocks = history_clocks(report, 3);
  EXPECT_EQ(clocks.maps[1].earliest(5'000), 4'570);
  EXPECT_EQ(clocks.report["nodes"][0]["method"], "fabric");
  EXPECT_EQ(clocks.report["nodes"][1]["method"], "control");
  EXPECT_EQ(clocks.report["nodes"][1]["error_ns"], 900'000);
}

}  // namespace
}  // namespace loch::cli
