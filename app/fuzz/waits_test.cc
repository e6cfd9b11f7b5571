// Tests of how many seeds fuzz campaigns need until they find a known-bad variant (campaigns without a
// finding are censored observations), and of the results file.
#include "app/fuzz/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/fuzz/sightings.h"
#include "common/base/rng.h"

namespace loch::fuzz {
namespace {

using ::testing::HasSubstr;

TEST(Waits, EachStartBeginsBehindTheFindBefore) {
  // The known-bad variant was found at the seeds 3, 4, 14 and 34, that is, after waits of 3, 1, 10 and 20
  // seeds.
  const Sightings s{.seeds = 40, .finds = {3, 4, 14, 34}, .by = {}, .errors = 0};
  const WaitStatistics of_four = waits_of(s, 4);
  EXPECT_EQ(of_four.starts, 4U);
  EXPECT_EQ(of_four.median, (Wait{3, false}));
  EXPECT_EQ(of_four.ninetieth, (Wait{20, false}));
  const WaitStatistics of_two = waits_of(s, 2);  // statistics of only the first two waits: 3 and 1 seeds
  EXPECT_EQ(of_two.starts, 2U);
  EXPECT_EQ(of_two.median, (Wait{1, false}));
  EXPECT_EQ(of_two.ninetieth, (Wait{3, false}));
}

TEST(Waits, TheStartThatTheEndCutOffCountsAsTheLongest) {
  // The known-bad variant was found after waits of 3, 1 and 10 seeds, and not by any of the last 26 seeds.
  const Sightings s{.seeds = 40, .finds = {3, 4, 14}, .by = {}, .errors = 0};
  const WaitStatistics waits = waits_of(s, 100);
  EXPECT_EQ(waits.starts, 3U);
  EXPECT_EQ(waits.median, (Wait{3, false}));
  EXPECT_EQ(waits.ninetieth, (Wait{26, true}));
  EXPECT_EQ(to_string(waits.ninetieth), "> 26");
}

TEST(Waits, NothingFoundIsMoreThanTheStretch) {
  const WaitStatistics waits = waits_of({.seeds = 2000, .finds = {}, .by = {}, .errors = 0}, 100);
  EXPECT_EQ(waits.starts, 0U);
  EXPECT_EQ(to_string(waits.median), "> 2000");
  EXPECT_EQ(to_string(waits.ninetieth), "> 2000");
  EXPECT_EQ(waits.share, 0);
  EXPECT_GT(waits.share_high, 0.001);  // after 2,000 seeds in vain, the share may be up to 0.2 %
  EXPECT_LT(waits.share_high, 0.002);
}

// If one seed in 25 finds the known-bad variant, the median of the geometric distribution is 17 seeds and its
// 90th percentile 57.
TEST(Waits, AreThoseOfTheGeometricDistribution) {
  Rng rng(1, "waits");
  Sightings s;
  while (s.finds.size() < 4000) {
    ++s.seeds;
    if (rng.chance(0.04)) s.finds.push_back(s.seeds);
  }
  const WaitStatistics waits = waits_of(s, 4000);
  EXPECT_NEAR(static_cast<double>(waits.median.seeds), 17, 2);
  EXPECT_NEAR(static_cast<double>(waits.ninetieth.seeds), 57, 4);
  EXPECT_NEAR(waits.share, 0.04, 0.002);
  EXPECT_LT(waits.share_low, 0.04);
  EXPECT_GT(waits.share_high, 0.04);
}

class SightingsKept : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("sightings" + std::to_string(::getpid()) + ".jsonl"))
                .string();
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void append(const std::string& text) { std::ofstream(path_, std::ios::app | std::ios::binary) << text; }
  std::string path_;
  const SightingsKey key_{"abc", "pilaf", "no-key-compare", "connectx3-10gbe", 1};
  const Sightings part_{.seeds = 100, .finds = {7, 100}, .by = {{"violated, in `hot`", 2}}, .errors = 1};
};

TEST_F(SightingsKept, PartsAddUpAndGoOnAfterAnEnd) {
  auto file = SightingsFile::open(path_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->add(key_, part_));
  append("{\"version\":1,\"comm");  // a line cut off because the process was killed
  auto again = SightingsFile::open(path_);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->of(key_), part_);
  ASSERT_TRUE(again->add(key_, part_));
  const auto third = SightingsFile::open(path_);
  ASSERT_TRUE(third) << third.error().message;
  const Sightings both{
      .seeds = 200, .finds = {7, 100, 107, 200}, .by = {{"violated, in `hot`", 4}}, .errors = 2};
  EXPECT_EQ(third->of(key_), both);
  SightingsKey other = key_;
  other.commit = "abd";
  EXPECT_EQ(third->of(other), Sightings{});
}

TEST_F(SightingsKept, BadLinesAreNamed) {
  append("{}\n");
  EXPECT_THAT(SightingsFile::open(path_).error().message, HasSubstr(":1: expected a line of loch fuzz"));
  std::filesystem::remove(path_);
  append("{\"version\":2}\n");
  EXPECT_THAT(SightingsFile::open(path_).error().message, HasSubstr(":1: not of version 1"));
  std::filesystem::remove(path_);
  append(
      R"({"version":1,"commit":"a","protocol":"p","variant":"v","settings":"","first_seed":1,"seeds":5,"finds":[6],"by":{},"errors":0})"
      "\n");
  EXPECT_THAT(SightingsFile::open(path_).error().message, HasSubstr("not ascending"));
  EXPECT_THAT(SightingsFile::open("/").error().message, HasSubstr("not a file"));
}

}  // namespace
}  // namespace loch::fuzz
