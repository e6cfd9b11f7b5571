// Tests the search for a rate on a formula for latency whose solution is known.
#include "app/cli/search.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"

namespace loch::cli {
namespace {

// A modelled store with latency 10 us / (1 - load) and a capacity of 100,000 operations a second.
Result<measure::PointResult> queueing(double rate) {
  constexpr double capacity = 100'000;
  measure::PointResult point;
  point.duration_s = 1;
  point.nodes.resize(1);
  const double done = rate == 0 ? capacity : std::min(rate, capacity);
  const double latency_ns = rate >= capacity ? 1e9 : 10'000 / (1 - (rate == 0 ? 0 : rate / capacity));
  measure::KindTally& gets = point.nodes[0].tally.of(OpKind::get);
  gets.latency_ns.record(static_cast<std::int64_t>(latency_ns), static_cast<std::uint64_t>(done));
  gets.by_status[0] = static_cast<std::uint64_t>(done);
  return point;
}

TEST(Search, Goals) {
  EXPECT_EQ(parse_goal("p99:1000us")->limit, 1'000'000);
  EXPECT_DOUBLE_EQ(parse_goal("p99.9:5ms")->percentile, 99.9);
  EXPECT_DOUBLE_EQ(parse_goal("max:5ms")->percentile, 100);
  EXPECT_LT(parse_goal("mean:20us")->percentile, 0);
  for (const char* text :
       {"", "p99", "p99:", "99:1ms", "p0:1ms", "p101:1ms", "px:1ms", "p99:10", "p99:0us"}) {
    EXPECT_FALSE(parse_goal(text)) << text;
  }
}

TEST(Search, FindsTheRateThatTheFormulaGives) {
  const auto found = search_rate(*parse_goal("p99:100us"), queueing);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_met);
  ASSERT_FALSE(found->tried.empty());
  double best = 0;
  for (const auto& [rate, is_met] : found->tried) best = is_met ? std::max(best, rate) : best;
  EXPECT_NEAR(best, 90'000, 2'500);  // at 90 % load, latency is 10 / (1 - 0.9) = 100 us
  EXPECT_LE(found->tried.size(), 12U);
}

TEST(Search, AGoalThatNothingMeets) {
  const auto found = search_rate(*parse_goal("p99:1us"), queueing);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_met);
}

}  // namespace
}  // namespace loch::cli
