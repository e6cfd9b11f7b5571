// Tests the histogram against percentiles of sorted values.
#include "common/measure/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/rng.h"

namespace loch::measure {
namespace {

TEST(Histogram, EmptyIsAllZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.min(), 0);
  EXPECT_EQ(h.percentile(99), 0);
  EXPECT_EQ(h.mean(), 0);
  EXPECT_TRUE(h.buckets().empty());
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  for (int i = 1; i <= 1000; ++i) h.record(i);
  EXPECT_EQ(h.percentile(50), 500);
  EXPECT_EQ(h.percentile(99), 990);
  EXPECT_EQ(h.percentile(99.9), 999);
  EXPECT_EQ(h.percentile(0), 1);
  EXPECT_EQ(h.percentile(100), 1000);
  EXPECT_DOUBLE_EQ(h.mean(), 500.5);
}

TEST(Histogram, ThreeDigitsAtEveryMagnitude) {
  for (std::int64_t value = 1; value > 0 && value < INT64_MAX / 3; value = value * 3 + 1) {
    Histogram h;
    h.record(value);
    // percentile() never returns more than the exact maximum. If `value` were the maximum, this cap would
    // hide a wrong bucket of `value`; so value * 2 is recorded too.
    h.record(value / 2);
    h.record(value * 2);
    const auto got = static_cast<double>(h.percentile(60));
    EXPECT_GE(got, static_cast<double>(value)) << value;
    EXPECT_LE(got, static_cast<double>(value) * 1.001) << value;
  }
}

TEST(Histogram, PercentilesAgreeWithSorting) {
  Rng rng(7);
  Histogram h;
  std::vector<std::int64_t> all;
  for (int i = 0; i < 100'000; ++i) {
    const auto value = static_cast<std::int64_t>(rng.exponential(50'000));
    h.record(value);
    all.push_back(value);
  }
  std::ranges::sort(all);
  for (const double p : {1.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
    const auto rank = static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(all.size()))) - 1;
    EXPECT_NEAR(static_cast<double>(h.percentile(p)), static_cast<double>(all[rank]),
                static_cast<double>(all[rank]) * 0.001 + 1)
        << p;
  }
}

TEST(Histogram, MergeIsRecordingBoth) {
  Rng rng(8);
  Histogram a, b, both;
  for (int i = 0; i < 10'000; ++i) {
    const auto value = static_cast<std::int64_t>(rng.below(10'000'000));
    (i % 3 == 0 ? a : b).record(value);
    both.record(value);
  }
  a.merge(b);
  EXPECT_EQ(a.buckets(), both.buckets());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  EXPECT_DOUBLE_EQ(a.mean(), both.mean());
}

TEST(Histogram, RestoreKeepsEverything) {
  Rng rng(9);
  Histogram a;
  for (int i = 0; i < 1'000; ++i) a.record(static_cast<std::int64_t>(rng.exponential(1e6)));
  const Histogram b = Histogram::restore(a.buckets(), a.min(), a.max(), a.sum());
  EXPECT_EQ(b.buckets(), a.buckets());
  EXPECT_EQ(b.percentile(99), a.percentile(99));
  EXPECT_DOUBLE_EQ(b.mean(), a.mean());
}

TEST(Histogram, CoarseBucketsLoseNoCountsAndLittleValue) {
  Rng rng(10);
  Histogram a;
  for (int i = 0; i < 10'000; ++i) a.record(static_cast<std::int64_t>(rng.exponential(1e6)));
  std::uint64_t total = 0;
  double sum = 0;
  for (const auto& [value, n] : a.coarse_buckets()) {
    total += n;
    sum += static_cast<double>(value) * static_cast<double>(n);
  }
  EXPECT_EQ(total, a.count());
  EXPECT_NEAR(sum / static_cast<double>(total), a.mean(), a.mean() * 0.016);
  EXPECT_LT(a.coarse_buckets().size(), 1'500u);
}

TEST(Histogram, PercentileTextHasHdrColumnsAndEndsAtOne) {
  Histogram h;
  for (int i = 1; i <= 10'000; ++i) h.record(i * 1000);
  const std::string text = h.percentile_text(1000);
  EXPECT_NE(text.find("       Value     Percentile TotalCount 1/(1-Percentile)"), std::string::npos);
  EXPECT_NE(text.find("1.000000000000      10000\n"), std::string::npos);
  EXPECT_NE(text.find("#[Mean    =     5000.500"), std::string::npos);
  EXPECT_NE(text.find("#[Max     =    10000.000, Total count    =        10000]"), std::string::npos);
}

}  // namespace
}  // namespace loch::measure
