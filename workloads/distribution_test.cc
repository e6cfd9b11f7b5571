// Tests the distributions against YCSB's constants, exact sums and chi-square bounds.
#include "workloads/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "workloads/fnv.h"

namespace loch::workloads {
namespace {

// The chi-square bound that k degrees of freedom exceed with probability 0.1 % (approximation of Wilson and
// Hilferty).
double chi_square_limit(double k) {
  const double a = 2.0 / (9.0 * k);
  return k * std::pow(1 - a + 3.09 * std::sqrt(a), 3);
}

Drawer drawer(Rng& rng, std::uint64_t records) {
  Drawer d;
  d.rng = &rng;
  d.records = records;
  return d;
}

std::vector<std::uint64_t> draw(const DistributionSpec& spec, std::uint64_t records, std::uint64_t times,
                                std::uint32_t node = 0, std::uint32_t nodes = 1) {
  const auto chooser = make_chooser(spec, records, 0);
  EXPECT_TRUE(chooser) << chooser.error().message;
  Rng rng(1, "test");
  std::uint64_t place = 0;
  Drawer d = drawer(rng, records);
  d.node = node;
  d.nodes = nodes;
  d.sequence = &place;
  std::vector<std::uint64_t> hits(records);
  for (std::uint64_t i = 0; i < times; ++i) ++hits.at((*chooser)->next(d));
  return hits;
}

TEST(Fnv64, ValuesOfYcsb) {
  EXPECT_EQ(fnv64(0), 6284781860667377211ULL);
  EXPECT_EQ(fnv64(1), 8517097267634966620ULL);
  EXPECT_EQ(fnv64(2), 1820151046732198393ULL);
  EXPECT_EQ(fnv64(3), 4052466453699787802ULL);
  EXPECT_EQ(fnv64(999), 2071219101098386137ULL);
}

TEST(Zeta, FixedConstantOfTheScrambledGenerator) {
  // YCSB's constant is a sum computed term by term; zeta() agrees with it up to the rounding errors of that
  // sum.
  EXPECT_NEAR(zeta(10'000'000'000ULL, 0.99), 26.46902820178302, 1e-6);
}

TEST(Zeta, TheSumThatIsKeptIsOfItsOwnArguments) {
  for (const auto& [n, theta] :
       {std::pair{10U, 0.5}, std::pair{11U, 0.5}, std::pair{11U, 0.9}, std::pair{10U, 0.5}}) {
    double sum = 0;
    for (std::uint32_t i = n; i >= 1; --i) sum += std::pow(static_cast<double>(i), -theta);
    EXPECT_DOUBLE_EQ(zeta(n, theta), sum) << n << " terms, theta " << theta;
    EXPECT_DOUBLE_EQ(zeta(n, theta), sum) << "asked again";
  }
}

TEST(Zeta, EulerMaclaurinAgreesWithTheSum) {
  for (const double theta : {0.5, 0.99, 1.0, 1.2}) {
    double sum = 0;
    for (std::uint64_t i = 3'000'000; i >= 1; --i) sum += std::pow(static_cast<double>(i), -theta);
    EXPECT_NEAR(zeta(3'000'000, theta), sum, sum * 1e-12) << theta;
  }
}

TEST(Zipfian, KnownBiasOfGraysApproximation) {
  const Zipfian z(1'000'000, 0.99);
  const auto relative = [&](std::uint64_t rank) {
    const double exact = std::pow(static_cast<double>(rank + 1), -0.99) / z.zeta();
    return (z.below(rank + 1) - z.below(rank)) / exact - 1;
  };
  EXPECT_NEAR(relative(0), 0, 1e-9);
  // Known error of the algorithm: it draws the third rank with a probability that is 19.4 % too high.
  EXPECT_NEAR(relative(2), 0.194, 0.002);
  EXPECT_NEAR(relative(3), 0.13, 0.003);
  EXPECT_NEAR(relative(9), 0.036, 0.002);
}

class ZipfianFit : public testing::TestWithParam<std::pair<std::uint64_t, double>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ZipfianFit,
                         testing::Values(std::pair{1'000ULL, 0.99}, std::pair{1'000'000ULL, 0.99},
                                         std::pair{1'000ULL, 0.5}, std::pair{1'000ULL, 1.0},
                                         std::pair{1'000ULL, 1.3}));

TEST_P(ZipfianFit, ChiSquareAgainstItsOwnFormula) {
  const auto [n, theta] = GetParam();
  const Zipfian z(n, theta);
  constexpr std::uint64_t times = 1'000'000, tracked = 200;
  std::vector<std::uint64_t> hits(tracked + 1);
  Rng rng(2, "zipf");
  for (std::uint64_t i = 0; i < times; ++i) ++hits[std::min(z.rank(rng.uniform()), tracked)];
  double chi = 0;
  for (std::uint64_t k = 0; k <= tracked; ++k) {
    const double p = (k == tracked ? 1 : z.below(k + 1)) - z.below(k);
    const double expected = p * times;
    if (expected < 5) continue;
    const double off = static_cast<double>(hits[k]) - expected;
    chi += off * off / expected;
  }
  EXPECT_LT(chi, chi_square_limit(tracked));
}

TEST(Zipfian, ScrambledIsAsFlatAsYcsb) {
  DistributionSpec spec;
  spec.kind = Distribution::zipfian;
  auto hits = draw(spec, 1'000, 1'000'000);
  std::ranges::sort(hits, std::greater<>());
  EXPECT_NEAR(static_cast<double>(hits[0]) / 1e6, 0.039, 0.001);
  spec.kind = Distribution::zipfian_n;
  hits = draw(spec, 1'000, 1'000'000);
  std::ranges::sort(hits, std::greater<>());
  EXPECT_NEAR(static_cast<double>(hits[0]) / 1e6, 0.129, 0.002);
}

TEST(Zipfian, ScrambledHitsTheRecordThatFnvNames) {
  DistributionSpec spec;
  spec.kind = Distribution::zipfian;
  const auto hits = draw(spec, 1'000, 100'000);
  const auto hottest = static_cast<std::uint64_t>(std::ranges::max_element(hits) - hits.begin());
  EXPECT_EQ(hottest, fnv64(0) % 1'000);
}

TEST(ZipfianN, EveryRankHasARecordOfItsOwn) {
  DistributionSpec spec;
  spec.kind = Distribution::zipfian_n;
  spec.zipf_theta = 0.2;
  for (const std::uint64_t n : {1ULL, 2ULL, 7ULL, 100ULL}) {
    const auto hits = draw(spec, n, 100'000);
    for (std::uint64_t i = 0; i < n; ++i) EXPECT_GT(hits[i], 0U) << n << ": " << i;
  }
}

// With 10^8 popularity ranks over 1,000 records, the first records are drawn as often as the first of 10^8
// would be, and the draws of the ranks beyond 1,000 are spread evenly over all records.
TEST(ZipfianN, MoreRanksThanRecords) {
  DistributionSpec spec;
  spec.kind = Distribution::zipfian_n;
  spec.zipf_items = 100'000'000;
  auto hits = draw(spec, 1'000, 1'000'000);
  std::ranges::sort(hits, std::greater<>());
  const Zipfian published(spec.zipf_items, spec.zipf_theta);
  const double beyond = 1 - published.below(1'000), even = beyond / 1'000;
  EXPECT_NEAR(static_cast<double>(hits[0]) / 1e6, published.below(1) + even, 0.001);
  EXPECT_NEAR(static_cast<double>(hits[1]) / 1e6, published.below(2) - published.below(1) + even, 0.001);
  EXPECT_NEAR(static_cast<double>(hits[999]) / 1e6, even, 0.3 * even);
  spec.zipf_items = 999;
  EXPECT_FALSE(make_chooser(spec, 1'000, 0));
  spec.zipf_items = 1'000;
  EXPECT_TRUE(make_chooser(spec, 1'000, 0));
  spec.kind = Distribution::uniform;
  EXPECT_FALSE(make_chooser(spec, 1'000, 0));
}

TEST(Uniform, ChiSquare) {
  const auto hits = draw({}, 500, 1'000'000);
  double chi = 0;
  for (const std::uint64_t n : hits) chi += std::pow(static_cast<double>(n) - 2'000, 2) / 2'000;
  EXPECT_LT(chi, chi_square_limit(499));
}

TEST(Latest, NewestMostAndGrows) {
  DistributionSpec spec;
  spec.kind = Distribution::latest;
  const auto chooser = make_chooser(spec, 1'000, 1'000);
  ASSERT_TRUE(chooser);
  Rng rng(3);
  for (const std::uint64_t records : {1'000ULL, 1'500ULL, 2'000ULL}) {
    std::map<std::uint64_t, int> hits;
    for (int i = 0; i < 50'000; ++i) {
      const std::uint64_t record = (*chooser)->next(drawer(rng, records));
      ASSERT_LT(record, records);
      ++hits[record];
    }
    const Zipfian z(records, 0.99);
    EXPECT_NEAR(hits[records - 1] / 50'000.0, z.below(1), 0.01) << records;
    EXPECT_GT(hits[records - 1], hits[records - 2]);
  }
}

TEST(Hotspot, ContiguousPrefixTakesItsShare) {
  DistributionSpec spec;
  spec.kind = Distribution::hotspot;
  const auto hits = draw(spec, 1'000, 500'000);
  std::uint64_t hot = 0;
  for (std::uint64_t i = 0; i < 200; ++i) hot += hits[i];
  EXPECT_NEAR(static_cast<double>(hot) / 500'000, 0.8, 0.005);
}

TEST(Exponential, PercentileWithinItsFraction) {
  DistributionSpec spec;
  spec.kind = Distribution::exponential;
  const auto hits = draw(spec, 10'000, 500'000);
  // Counts draws of the newest 85.7 % of the records. These would be 95 % of all draws if draws beyond the
  // first record were not repeated.
  std::uint64_t near = 0;
  for (std::uint64_t i = 10'000 - 8'571; i < 10'000; ++i) near += hits[i];
  // Share of the draws that fall before the first record and are repeated.
  const double beyond = std::exp(-(-std::log(0.05) / 0.8571428571));
  EXPECT_NEAR(static_cast<double>(near) / 500'000, 0.95 / (1 - beyond), 0.005);
  EXPECT_GT(hits[9'999], hits[5'000]);
}

TEST(Sequential, CountsUpAndWraps) {
  DistributionSpec spec;
  spec.kind = Distribution::sequential;
  const auto hits = draw(spec, 10, 25);
  EXPECT_EQ(hits, (std::vector<std::uint64_t>{3, 3, 3, 3, 3, 2, 2, 2, 2, 2}));
}

TEST(Locality, ShareOfTheNodesOwnPart) {
  DistributionSpec spec;
  spec.kind = Distribution::locality;
  for (const double share : {0.0, 0.5, 0.8, 1.0}) {
    spec.locality = share;
    for (const std::uint32_t node : {0U, 3U, 9U}) {
      const auto hits = draw(spec, 1'000, 200'000, node, 10);
      std::uint64_t own = 0;
      for (std::uint64_t i = 0; i < 1'000; ++i) own += i % 10 == node ? hits[i] : 0;
      EXPECT_NEAR(static_cast<double>(own) / 200'000, share + (1 - share) / 10, 0.005)
          << share << " on " << node;
    }
  }
}

TEST(Locality, OddPartsStayInRange) {
  DistributionSpec spec;
  spec.kind = Distribution::locality;
  spec.locality = 1;
  for (std::uint32_t node = 0; node < 7; ++node) {
    const auto hits = draw(spec, 10, 1'000, node, 7);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(hits[i] > 0, i % 7 == node) << i << " on " << node;
  }
}

TEST(Streams, OneSeedGivesEveryThreadItsOwn) {
  std::map<std::uint64_t, int> firsts;
  for (std::uint64_t thread = 0; thread < 1'000; ++thread) ++firsts[Rng(42, "load", thread)()];
  EXPECT_EQ(firsts.size(), 1'000U);
  EXPECT_EQ(Rng(42, "load", 5)(), Rng(42, "load", 5)());
  EXPECT_NE(Rng(42, "load", 5)(), Rng(43, "load", 5)());
}

TEST(MakeChooser, RefusesWhatCannotBeDrawn) {
  DistributionSpec spec;
  EXPECT_FALSE(make_chooser(spec, 0, 0));
  spec.kind = Distribution::zipfian_n;
  spec.zipf_theta = 0;
  EXPECT_FALSE(make_chooser(spec, 10, 0));
  spec.kind = Distribution::zipfian;
  spec.zipf_theta = 0.9;
  const auto refused = make_chooser(spec, 10, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("zipfian-n"), std::string::npos);
  EXPECT_FALSE(parse_distribution("zipf", "distribution"));
}

}  // namespace
}  // namespace loch::workloads
