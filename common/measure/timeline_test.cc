// Tests timelines (operations per bin of time): latency buckets, recording into shared rows of counters,
// merging, and the JSON of processes and of results.
#include "common/measure/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/rng.h"

namespace loch::measure {
namespace {

constexpr TimelineShape shape{.width_ns = 1'000, .duration_ns = 3'500};

struct Rows {
  explicit Rows(const TimelineShape& of) : words(of.words()) {}
  std::vector<std::uint32_t> words;
  [[nodiscard]] TimelineRecorder recorder(const TimelineShape& of) { return {of, words}; }
};

TEST(TimelineBucket, IsTheMiddleOfItsValuesWithinOnePointSixPercent) {
  Rng rng(1, "values", 0);
  std::uint32_t last = 0;
  for (std::int64_t value = 0; value < 100'000; ++value) {
    ASSERT_GE(timeline_bucket(value), last);
    ASSERT_LE(timeline_bucket(value), last + 1);
    last = timeline_bucket(value);
  }
  for (int i = 0; i < 100'000; ++i) {
    const auto value = static_cast<std::int64_t>(rng.below(1ULL << (1 + rng.below(36))));
    const auto real = static_cast<double>(value);
    ASSERT_NEAR(timeline_middle(timeline_bucket(value)), real, 0.016 * real) << value;
  }
  EXPECT_EQ(timeline_bucket(INT64_MAX), timeline_buckets - 1);
  EXPECT_EQ(timeline_bucket(-1), 0U);
}

TEST(TimelineShapes, AreRefusedWhereTheyAreNoneOrTooFine) {
  EXPECT_FALSE(timeline_shape(0, 1'000));
  EXPECT_FALSE(timeline_shape(-1, 1'000));
  EXPECT_FALSE(timeline_shape(1, 0));
  EXPECT_TRUE(timeline_shape(1, timeline_bins_max));
  EXPECT_FALSE(timeline_shape(1, timeline_bins_max + 1));
  EXPECT_FALSE(timeline_shape(1, INT64_MAX));
  EXPECT_EQ(shape.bins(), 4U);
  EXPECT_EQ(shape.bin_of(-5), 0U);
  EXPECT_EQ(shape.bin_of(999), 0U);
  EXPECT_EQ(shape.bin_of(1'000), 1U);
  EXPECT_EQ(shape.bin_of(3'500), 3U);
}

TEST(TimelineRecording, EveryOperationIsInTheBinInWhichItEnded) {
  Rows rows(shape);
  TimelineRecorder recorder = rows.recorder(shape);
  recorder.record(10, 50, true);
  recorder.record(999, 50, true);
  recorder.record(1'000, 60, false);
  recorder.record(3'000, 7, true);
  recorder.record(3'500, 9, true);  // an operation that ends exactly at the end of the measurement window
  recorder.flush();
  recorder.flush();  // a second flush adds nothing
  Timeline timeline(shape);
  timeline.add(rows.words);
  std::vector<std::uint64_t> completed, failed;
  for (const Timeline::Bin& bin : timeline.bins()) {
    completed.push_back(bin.completed());
    failed.push_back(bin.failed);
  }
  EXPECT_THAT(completed, ::testing::ElementsAre(2, 0, 0, 2));
  EXPECT_THAT(failed, ::testing::ElementsAre(0, 1, 0, 0));
}

TEST(TimelineRecording, OneThatIsOffRecordsNothing) {
  TimelineRecorder recorder;
  recorder.record(10, 50, true);
  recorder.flush();
}

TEST(TimelineRecording, ThreadsShareTheRows) {
  constexpr TimelineShape fine{.width_ns = 10, .duration_ns = 1'000};
  Rows rows(fine);
  constexpr int threads = 4, operations = 20'000;
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&rows, fine] {
        TimelineRecorder recorder = rows.recorder(fine);
        for (int k = 0; k < operations; ++k) recorder.record(k * 1'000 / operations, 100, k % 10 != 0);
        recorder.flush();
      });
    }
  }
  Timeline timeline(fine);
  timeline.add(rows.words);
  std::uint64_t completed = 0, failed = 0;
  for (const Timeline::Bin& bin : timeline.bins()) {
    EXPECT_EQ(bin.completed() + bin.failed, threads * operations / 100U);
    completed += bin.completed();
    failed += bin.failed;
  }
  EXPECT_EQ(completed, threads * operations / 10U * 9);
  EXPECT_EQ(failed, threads * operations / 10U);
}

TEST(TimelineBins, PercentilesAreOfCompletedOperations) {
  Rows rows(shape);
  TimelineRecorder recorder = rows.recorder(shape);
  for (int i = 1; i <= 100; ++i) recorder.record(0, i <= 98 ? 10 : 40, true);
  recorder.record(0, 63, false);
  recorder.flush();
  Timeline timeline(shape);
  timeline.add(rows.words);
  EXPECT_EQ(timeline.bins()[0].percentile(50), 10.0);
  EXPECT_EQ(timeline.bins()[0].percentile(98), 10.0);
  EXPECT_EQ(timeline.bins()[0].percentile(99), 40.0);
  EXPECT_EQ(timeline.bins()[1].percentile(50), std::nullopt);
}

Timeline example(std::uint64_t seed) {
  Rng rng(seed, "timeline", 0);
  Rows rows(shape);
  TimelineRecorder recorder = rows.recorder(shape);
  for (std::int64_t at = 0; at < 3'500; at += 1 + static_cast<std::int64_t>(rng.below(100)))
    recorder.record(at, static_cast<std::int64_t>(rng.below(1 << 20)), rng.chance(0.8));
  recorder.flush();
  Timeline timeline(shape);
  timeline.add(rows.words);
  timeline.add_event({static_cast<std::int64_t>(rng.below(3'000)) - 500, "kill", 2});
  return timeline;
}

TEST(TimelineMerge, AddsBinByBinWhateverTheOrder) {
  Timeline ab = example(1), ba = example(2);
  ab.merge(example(2));
  ba.merge(example(1));
  EXPECT_EQ(bins_json(ab), bins_json(ba));
  EXPECT_EQ(events_json(ab), events_json(ba));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(ab.bins()[i].completed(), example(1).bins()[i].completed() + example(2).bins()[i].completed());
    EXPECT_EQ(ab.bins()[i].failed, example(1).bins()[i].failed + example(2).bins()[i].failed);
  }
}

TEST(TimelineMerge, OneProcessKnowsTheUnwritableKeys) {
  Timeline sum = example(1), prober = example(2);
  prober.set_unwritable({0, 3, 2, 0});
  sum.merge(prober);
  EXPECT_EQ(sum.bins()[1].unwritable, 3U);
  EXPECT_EQ(example(1).bins()[1].unwritable, std::nullopt);
}

TEST(TimelineText, BetweenProcessesNothingIsLost) {
  Timeline timeline = example(3);
  timeline.set_unwritable({0, 1, 2, 4'000'000'000});
  const auto back = timeline_from_json(nlohmann::json::parse(to_json(timeline).dump()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(timeline));
  EXPECT_EQ(back->shape(), shape);
}

TEST(TimelineText, OfAResultHasAllBinsWithNullWhereNothingCompleted) {
  Rows rows(shape);
  TimelineRecorder recorder = rows.recorder(shape);
  recorder.record(0, 2'000, true);
  recorder.record(3'200, 2'000, true);
  recorder.record(3'200, 2'000, false);
  recorder.flush();
  Timeline timeline(shape);
  timeline.add(rows.words);
  timeline.add_event({2'000, "scrub", 1});
  timeline.add_event({-1'000, "kill", 1});
  const auto bins = bins_json(timeline);
  ASSERT_EQ(bins.size(), 4U);
  EXPECT_EQ(bins[0]["ops_s"], 1e6);
  EXPECT_NEAR(bins[0]["p99_us"].get<double>(), 2, 0.04);
  EXPECT_EQ(bins[1]["ops_s"], 0);
  EXPECT_TRUE(bins[1]["p50_us"].is_null());
  EXPECT_TRUE(bins[1]["p99_us"].is_null());
  EXPECT_TRUE(bins[1]["unwritable_keys"].is_null());
  EXPECT_EQ(bins[2]["t_s"], 2e-6);
  EXPECT_EQ(bins[3]["ops_s"], 2e6);  // the last bin is half as wide as the others
  EXPECT_EQ(bins[3]["failed_s"], 2e6);
  const auto events = events_json(timeline);
  EXPECT_EQ(events[0]["event"], "kill");
  EXPECT_EQ(events[0]["t_s"], -1e-6);
  EXPECT_EQ(events[1]["node"], 1);
}

}  // namespace
}  // namespace loch::measure
