// Tests the translation of times between clocks that differ in offset and rate, and what is said of a clock
// that drifts.
#include "common/check/clock_map.h"

#include <gtest/gtest.h>

namespace loch::check {
namespace {

constexpr Nanos second = 1'000'000'000;

// The comparisons that a process makes between its own clock and the reference clock. The own clock gains
// `ppm` parts per million and is `ahead` ns ahead at time 0. A comparison is made every `every` ns for `span`
// ns; each has the error `error`.
std::vector<ClockSample> drifting(double ppm, Nanos ahead, Nanos every, Nanos span, Nanos error) {
  std::vector<ClockSample> out;
  for (Nanos reference = 0; reference <= span; reference += every) {
    const auto own = reference + ahead + static_cast<Nanos>(static_cast<double>(reference) * ppm / 1e6);
    out.push_back({own, reference - own, error});
  }
  return out;
}

TEST(ClockMap, TheReferenceProcessHasNoError) {
  const ClockMap map;
  EXPECT_EQ(map.earliest(12'345), 12'345);
  EXPECT_EQ(map.latest(12'345), 12'345);
  EXPECT_EQ(map.error(), 0);
}

TEST(ClockMap, ASteadyDriftIsCorrected) {
  constexpr Nanos ahead = 40'000, error = 900;
  const ClockMap map(drifting(30, ahead, second, 10 * second, error), {});
  for (Nanos reference = 0; reference <= 10 * second; reference += 77'777'777) {
    const Nanos own = reference + ahead + static_cast<Nanos>(static_cast<double>(reference) * 30 / 1e6);
    EXPECT_LE(map.earliest(own), reference);
    EXPECT_GE(map.latest(own), reference);
    EXPECT_LE(map.latest(own) - map.earliest(own), 2 * (map.error() + 1));
  }
  EXPECT_LT(map.error(), 2'000);  // 900 ns, and 2 ppm of half a second
  EXPECT_GE(map.error(), 1'900);
  EXPECT_NEAR(map.drift_ppm(), -30, 0.5);
  EXPECT_FALSE(map.is_untrusted());
}

// The map does not trust a clock that drifts by 400 ppm, as no sound oscillator does, unless
// ClockBounds::drift_ppm is set to a very large value.
TEST(ClockMap, AClockThatDriftsBeyondTheBoundIsNotTrusted) {
  const auto samples = drifting(400, 0, second, 2 * second, 900);
  EXPECT_TRUE(ClockMap(samples, {}).is_untrusted());
  EXPECT_FALSE(ClockMap(samples, {.drift_ppm = 1e9}).is_untrusted());
}

TEST(ClockMap, ErrorsOfTheAlignmentsAreNotTakenForDrift) {
  // An offset that changes by 5 us in 10 ms looks like a drift of 500 ppm. But each comparison of the clocks
  // has an error of up to 3 us, so the drift may as well be within the bound.
  EXPECT_FALSE(ClockMap({{0, 0, 3'000}, {10'000'000, 5'000, 3'000}}, {}).is_untrusted());
  EXPECT_TRUE(ClockMap({{0, 0, 1'000}, {10'000'000, 5'000, 1'000}}, {}).is_untrusted());
}

TEST(ClockMap, AChangeOfRateAddsToTheError) {
  // The clock's rate changes by 100 ppm after one second, so an error of 50 us is possible in the middle of a
  // second.
  const ClockMap map({{0, 0, 500}, {second, 0, 500}, {2 * second, 100'000, 500}}, {});
  EXPECT_FALSE(map.is_untrusted());
  EXPECT_GT(map.error(), 45'000);
  EXPECT_GT(map.latest(second / 2) - map.earliest(second / 2), 90'000);
}

TEST(ClockMap, PoorAlignmentsUnderLoadAreLeftOut) {
  const ClockMap map({{0, 0, 500}, {second, 30'000, 60'000}, {2 * second, 1'000, 700}}, {});
  EXPECT_EQ(map.samples().size(), 2u);
  EXPECT_LT(map.error(), 3'000);
}

TEST(ClockMap, APoorLastAlignmentCountsForTheDriftOnly) {
  const ClockMap map({{0, 0, 500}, {second, 0, 500}, {second + second / 10, 0, 3'000'000}}, {});
  EXPECT_EQ(map.samples().size(), 2u);
  EXPECT_EQ(map.error(), 20'500);  // 200 ppm of a tenth of a second
  EXPECT_TRUE(
      ClockMap({{0, 0, 500}, {second, 0, 500}, {2 * second, 9'000'000, 3'000'000}}, {}).is_untrusted());
}

// A killed process has not compared its clock with the reference clock after its last operations, so the
// times of these operations may be wrong by the largest allowed drift.
TEST(ClockMap, BeyondTheLastAlignmentTheBoundOfTheDriftCounts) {
  const ClockMap map({{second, 0, 500}}, {});
  EXPECT_EQ(map.error(), 500);
  EXPECT_EQ(map.latest(2 * second), 2 * second + 200'500);
  EXPECT_EQ(map.earliest(2 * second), 2 * second - 200'500);
  EXPECT_EQ(map.earliest(0), 0);
}

}  // namespace
}  // namespace loch::check
