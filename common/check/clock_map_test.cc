// Tests the translation of times between clocks that differ in offset and rate, and what is said of a clock
// that drifts.
#include "common/check/clock_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <utility>

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

// A row of questions to a clock that is `behind` ns behind the own one at time 0 and loses `ppm`: each takes
// `there[i]` ns to the reference process and `back[i]` ns to return, and the next is asked at once.
std::vector<ClockAnswer> asked(double ppm, Nanos behind, const std::vector<Nanos>& there,
                               const std::vector<Nanos>& back) {
  std::vector<ClockAnswer> out;
  Nanos now = second;
  for (std::size_t i = 0; i < there.size(); ++i) {
    const Nanos read = now + there[i];
    const Nanos reference = read - behind - static_cast<Nanos>(static_cast<double>(read) * ppm / 1e6);
    out.push_back({now, read + back[i], reference});
    now = read + back[i];
  }
  return out;
}

TEST(CompareClocks, TheFastestWayThereAndTheFastestWayBackBoundTheOffset) {
  const std::vector<ClockAnswer> answers =
      asked(0, 5'000, {9'000, 400, 3'000, 7'000}, {500, 6'000, 3'000, 7'000});
  const ClockSample sample = compare_clocks(answers, {});
  EXPECT_EQ(sample.round_trip, 6'000);
  EXPECT_LE(std::abs(sample.offset + 5'000), sample.error);
  EXPECT_GE(sample.error, 450);       // half of 400 and 500
  EXPECT_LE(sample.error, 450 + 10);  // and the drift within 30 us at 200 ppm
}

TEST(CompareClocks, TheOffsetIsWithinTheErrorWhateverTheWaysTook) {
  std::mt19937_64 random(7);
  for (const double ppm : {-200.0, -30.0, 0.0, 30.0, 200.0}) {
    for (int row = 0; row < 500; ++row) {
      std::vector<Nanos> there, back;
      for (int i = 0; i < 60; ++i) {
        there.push_back(300 + static_cast<Nanos>(random() % 40'000));
        back.push_back(300 + static_cast<Nanos>(random() % 4'000));
      }
      const std::vector<ClockAnswer> answers = asked(ppm, 70'000, there, back);
      const ClockSample sample = compare_clocks(answers, {});
      const double truth = -70'000 - static_cast<double>(sample.at) * ppm / 1e6;
      // the reference clock's times are whole nanoseconds
      ASSERT_LE(std::abs(static_cast<double>(sample.offset) - truth), static_cast<double>(sample.error) + 1);
      ASSERT_LE(sample.error, sample.round_trip - sample.round_trip / 2 + 1 + sample.round_trip / 10'000);
    }
  }
}

// A fast way there and a fast way back that are 40 ms apart, in which the clocks drift apart by 8 us: more
// than both ways took.
TEST(CompareClocks, DriftBetweenTheTwoWaysIsInTheError) {
  constexpr Nanos fast = 2'500, slow = 5'000'000, slower = 35'000'000;
  for (const bool is_there_first : {true, false}) {
    for (const double ppm : {-200.0, 200.0}) {
      std::vector<Nanos> there{fast, slower}, back{slow, fast};
      if (!is_there_first) std::swap(there, back);
      const ClockSample sample = compare_clocks(asked(ppm, 0, there, back), {});
      const double truth = -static_cast<double>(sample.at) * ppm / 1e6;
      EXPECT_LE(std::abs(static_cast<double>(sample.offset) - truth), static_cast<double>(sample.error) + 1);
      EXPECT_LE(sample.error, 2 * fast + 8'000 + 2);  // the shortest round trip took 5 ms
    }
  }
}

// The reference clock is read at the end of a round trip of 20 ms, in which the clocks drift apart by 4 us.
TEST(CompareClocks, DriftWithinTheRoundTripIsInTheError) {
  for (const double ppm : {-200.0, 200.0}) {
    const ClockSample sample = compare_clocks(asked(ppm, 0, {300}, {20'000'000}), {});
    const double truth = -static_cast<double>(sample.at) * ppm / 1e6;
    EXPECT_LE(std::abs(static_cast<double>(sample.offset) - truth), static_cast<double>(sample.error));
  }
}

TEST(CompareClocks, AClockThatContradictsItselfIsReadByItsBestAnswer) {
  std::vector<ClockAnswer> answers = asked(0, 0, {500, 600, 700}, {500, 600, 700});
  answers[2].reference += 50'000;
  const ClockSample sample = compare_clocks(answers, {});
  EXPECT_EQ(sample.offset, 0);
  EXPECT_EQ(sample.error, 501);
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
  EXPECT_NEAR(static_cast<double>(map.error()), 1'400, 5);  // 900 ns, and a quarter of 2 ppm of a second
  EXPECT_NEAR(map.drift_ppm(), -30, 0.5);
  EXPECT_FALSE(map.is_untrusted());
}

// The worst clock that the bound on the rate's changes allows: it keeps one rate up to some instant between
// two exact comparisons, and one that is 2 ppm higher from there on.
TEST(ClockMap, AClockWhoseRateChangesOnceIsWithinTheError) {
  for (const Nanos turn : {second / 4, second, 7 * second / 4}) {
    const auto reference = [&](Nanos own) { return own + std::max<Nanos>(0, own - turn) * 2 / 1'000'000; };
    const ClockMap map({{0, 0, 10}, {2 * second, reference(2 * second) - 2 * second, 10}}, {});
    double largest = 0;
    for (Nanos own = 0; own <= 2 * second; own += second / 64) {
      ASSERT_LE(map.earliest(own), reference(own));
      ASSERT_GE(map.latest(own), reference(own));
      const Nanos middle = (map.earliest(own) + map.latest(own)) / 2;
      largest = std::max(largest, std::abs(static_cast<double>(middle - reference(own))));
    }
    EXPECT_LE(map.error(), 10 + 1'000 + 1);  // a quarter of 2 ppm of two seconds
    // at the instant of the change the bound is reached
    const double part = static_cast<double>(turn) / (2e9);
    EXPECT_NEAR(largest, part * (1 - part) * 4'000, 3);
  }
}

// A clock whose rate is drawn anew every 50 ms from a range of 2 ppm around `ppm`.
class WanderingClock {
 public:
  WanderingClock(double ppm, Nanos span, std::mt19937_64& random) : offsets_{-70'000.0} {
    std::uniform_real_distribution<double> rate(ppm - 1, ppm + 1);
    for (Nanos at = 0; at < span; at += step) {
      rates_.push_back(rate(random));
      offsets_.push_back(offsets_.back() + static_cast<double>(step) * rates_.back() / 1e6);
    }
  }
  // what the reference clock shows at the time `own`
  [[nodiscard]] double reference(Nanos own) const {
    const auto i = static_cast<std::size_t>(own / step);
    const auto since = static_cast<double>(own - static_cast<Nanos>(i) * step);
    return static_cast<double>(own) + offsets_[i] + since * rates_[i] / 1e6;
  }

 private:
  static constexpr Nanos step = second / 20;
  std::vector<double> rates_, offsets_;
};

// From questions to times: rows of questions under way for as long as a busy machine makes them, to a clock
// that wanders, and every time of the own clock is translated to where it was.
TEST(ClockMap, ATimeIsWhereItWasWhateverTheWaysAndTheRatesWere) {
  std::mt19937_64 random(11);
  std::exponential_distribution<double> way(1.0 / 2'000);
  for (const double ppm : {-190.0, 0.0, 60.0, 190.0}) {
    for (int run = 0; run < 20; ++run) {
      const WanderingClock clock(ppm, 4 * second, random);
      std::vector<ClockSample> samples;
      for (Nanos at = second / 2; at < 3 * second; at += second / 4) {
        std::vector<ClockAnswer> row;
        for (Nanos now = at; row.size() < 100;) {
          const Nanos read = now + 500 + static_cast<Nanos>(way(random));
          const Nanos heard = read + 300 + static_cast<Nanos>(way(random));
          row.push_back({now, heard, std::llround(clock.reference(read))});
          now = heard;
        }
        samples.push_back(compare_clocks(row, {}));
      }
      const Nanos first = samples.front().at, last = samples.back().at;
      const ClockMap map(std::move(samples), {});
      ASSERT_FALSE(map.is_untrusted());
      for (int i = 0; i < 300; ++i) {
        const Nanos own = first + static_cast<Nanos>(random() % static_cast<std::uint64_t>(last - first));
        ASSERT_LE(static_cast<double>(map.earliest(own)), clock.reference(own) + 1) << ppm << ' ' << own;
        ASSERT_GE(static_cast<double>(map.latest(own)), clock.reference(own) - 1) << ppm << ' ' << own;
        ASSERT_LE(map.latest(own) - map.earliest(own), 2 * map.error() + 2);
      }
      EXPECT_LT(map.error(), 2'500);
    }
  }
}

// A comparison of clocks every quarter of a second; the rate changes by 2 ppm within each, steadily. Most
// comparisons are poor, and what is left out has to be in the error of what is used.
TEST(ClockMap, ARateThatGoesOnChangingIsWithinTheErrorWhateverIsLeftOut) {
  const auto reference = [](Nanos own) {
    const double seconds = static_cast<double>(own) / 1e9;
    return own + std::llround(4'000 * seconds * seconds);  // 8 ppm a second
  };
  for (const Nanos poor : {2'000, 5'000, 20'000, 1'000'000}) {
    std::vector<ClockSample> samples;
    for (Nanos own = 0; own <= 2 * second; own += second / 4)
      samples.push_back({own, reference(own) - own, own % (2 * second) == 0 ? 300 : poor});
    const ClockMap map(samples, {});
    for (Nanos own = 0; own <= 2 * second; own += second / 100) {
      ASSERT_LE(map.earliest(own), reference(own) + 1) << poor << ' ' << own;
      ASSERT_GE(map.latest(own), reference(own) - 1) << poor << ' ' << own;
      ASSERT_LE(map.latest(own) - map.earliest(own), 2 * map.error() + 2);
    }
  }
}

// One change of the rate, anywhere, by more than ClockBounds::wander_ppm, which exact comparisons prove.
TEST(ClockMap, AChangeOfRateCountsWhereverItIs) {
  for (const double ppm : {10.0, 100.0}) {
    for (Nanos turn = second; turn <= 2 * second; turn += second / 40) {
      const auto reference = [&](Nanos own) {
        return own + std::llround(static_cast<double>(std::max<Nanos>(0, own - turn)) * ppm / 1e6);
      };
      std::vector<ClockSample> samples;
      for (Nanos own = 0; own <= 3 * second; own += second / 4)
        samples.push_back({own, reference(own) - own, 100});
      const ClockMap map(samples, {});
      for (Nanos own = 0; own <= 3 * second; own += second / 100) {
        ASSERT_LE(map.earliest(own), reference(own) + 1) << ppm << ' ' << turn << ' ' << own;
        ASSERT_GE(map.latest(own), reference(own) - 1) << ppm << ' ' << turn << ' ' << own;
      }
    }
  }
}

// A poor comparison that proves a change of the rate is not left out.
TEST(ClockMap, WhatContradictsTheOthersIsKept) {
  const ClockMap map({{second, 0, 100}, {2 * second, 0, 1'000}, {3 * second, 100'000, 100}}, {});
  EXPECT_EQ(map.samples().size(), 3u);
  EXPECT_LE(map.earliest(2 * second), 2 * second - 900);
  EXPECT_LE(map.latest(2 * second), 2 * second + 1'001);
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
  // The clock's rate changes by 100 ppm after one second, so an error of 25 us is possible in the middle of a
  // second.
  const ClockMap map({{0, 0, 500}, {second, 0, 500}, {2 * second, 100'000, 500}}, {});
  EXPECT_FALSE(map.is_untrusted());
  EXPECT_GT(map.error(), 24'000);
  EXPECT_GT(map.latest(second / 2) - map.earliest(second / 2), 48'000);
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
