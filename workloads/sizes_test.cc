// Tests sizes of keys and values against closed forms: Kolmogorov–Smirnov and χ² tests that also reject wrong
// parameters, moments, bounds, YCSB's histogram files, and sizes of records.
#include "workloads/sizes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "common/base/rng.h"
#include "workloads/records.h"

namespace loch::workloads {
namespace {

constexpr std::uint64_t draws = 200'000;

std::shared_ptr<const Sizes> sizes(const SizeSpec& spec, SizedData of = SizedData::value) {
  auto made = Sizes::make(spec, of);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

// Kolmogorov–Smirnov statistic: the largest distance between the empirical distribution of `drawn` over
// hashed words and the distribution function `cdf` over whole bytes, times the square root of the number of
// draws. If the two agree, it exceeds 1.95 with probability 0.1 % (less for discrete distributions).
template <typename Cdf>
double distance(const Sizes& drawn, Cdf below_or_equal) {
  std::map<std::uint32_t, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < draws; ++i) ++counts[drawn.of(mix64(i))];
  double sum = 0, most = 0;
  for (const auto& [bytes, count] : counts) {
    sum += static_cast<double>(count) / draws;
    most = std::max(most, std::abs(sum - below_or_equal(bytes)));
  }
  return most * std::sqrt(static_cast<double>(draws));
}
constexpr double distance_limit = 1.95;

// Distribution functions of sizes that are rounded down to whole bytes: P(size <= b) = F(b + 1), where F is
// the distribution function before rounding.
double gev(double b, double mu, double sigma, double k) {
  return std::exp(-std::pow(1 + k * (b + 1 - mu) / sigma, -1 / k));
}
double gpd(double b, double theta, double sigma, double k) {
  return b + 1 <= theta ? 0 : 1 - std::pow(1 + k * (b + 1 - theta) / sigma, -1 / k);
}

TEST(Sizes, KeysOfEtcAreTheirExtremeValueDistribution) {
  const auto etc = sizes({.kind = SizeKind::etc, .least = 1, .most = 1000}, SizedData::key);
  EXPECT_LT(distance(*etc, [](double b) { return gev(b, 30.7984, 8.20449, 0.078688); }), distance_limit);
  // A location parameter that is half a byte too large (31.3 instead of 30.7984) must be rejected.
  EXPECT_GT(distance(*etc, [](double b) { return gev(b, 31.3, 8.20449, 0.078688); }), distance_limit);
  double sum = 0;
  for (std::uint64_t i = 0; i < draws; ++i) sum += etc->of(mix64(i));
  // Mean of the generalised extreme value distribution with location mu, scale sigma and shape k: mu + sigma
  // (Gamma(1 - k) - 1) / k; less half a byte because sizes are rounded down.
  const double mean = 30.7984 + 8.20449 * (std::tgamma(1 - 0.078688) - 1) / 0.078688 - 0.5;
  EXPECT_NEAR(sum / draws, mean, 0.15);
}

TEST(Sizes, ValuesOfEtcAreTheTableAndTheParetoTail) {
  const auto etc = sizes({.kind = SizeKind::etc, .least = 1, .most = 1 << 20});
  constexpr double table[] = {0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606,
                              0.00023, 0.00837, 0.00837, 0.08989, 0.00092, 0.00326, 0.01980};
  const auto cdf = [&](double b, double sigma) {
    double head = 0, all = 0;
    for (int i = 0; i < 15; ++i) {
      head += i <= b ? table[i] : 0;
      all += table[i];
    }
    return head + (1 - all) * gpd(b, 15, sigma, 0.348238);
  };
  EXPECT_LT(distance(*etc, [&](double b) { return cdf(b, 214.476); }), distance_limit);
  EXPECT_GT(distance(*etc, [&](double b) { return cdf(b, 200); }), distance_limit);
  // χ² over the sizes 1 to 14 in table 5 of Atikoglu et al. 2012 (size 0 is raised to 1) and one class for
  // all larger sizes.
  std::vector<double> seen(16);
  for (std::uint64_t i = 0; i < draws; ++i) ++seen[std::min(etc->of(mix64(i)), 15U)];
  double chi = 0, rest = 1;
  for (int b = 1; b < 15; ++b) {
    const double share = table[b] + (b == 1 ? table[0] : 0);
    rest -= share;
    chi += std::pow(seen[b] - draws * share, 2) / (draws * share);
  }
  chi += std::pow(seen[15] - draws * rest, 2) / (draws * rest);
  EXPECT_LT(chi, 36.1);  // exceeded with probability 0.1 % at 14 degrees of freedom
}

TEST(Sizes, ParetoHasItsMomentsAndQuantiles) {
  const SizeSpec spec{
      .kind = SizeKind::pareto, .least = 1, .most = 1 << 24, .location = 100, .scale = 300, .shape = 0.2};
  const auto pareto = sizes(spec);
  EXPECT_LT(distance(*pareto, [](double b) { return gpd(b, 100, 300, 0.2); }), distance_limit);
  EXPECT_GT(distance(*pareto, [](double b) { return gpd(b, 100, 300, 0.22); }), distance_limit);
  EXPECT_NEAR(pareto->quantile(0.5), 100 + 300 * (std::pow(2, 0.2) - 1) / 0.2, 1e-9);
  double sum = 0;
  for (std::uint64_t i = 0; i < draws; ++i) sum += pareto->of(mix64(i));
  EXPECT_NEAR(sum / draws, 100 + 300 / (1 - 0.2) - 0.5, 5);
  // With shape 0, the generalised Pareto distribution is exponential.
  SizeSpec exponential = spec;
  exponential.shape = 0;
  EXPECT_NEAR(sizes(exponential)->quantile(0.5), 100 + 300 * std::log(2), 1e-9);
}

TEST(Sizes, UniformTakesEverySizeAlikeAndBothEnds) {
  const auto uniform = sizes({.kind = SizeKind::uniform, .least = 16, .most = 64});
  std::map<std::uint32_t, double> counts;
  for (std::uint64_t i = 0; i < draws; ++i) ++counts[uniform->of(mix64(i))];
  ASSERT_EQ(counts.size(), 49U);
  EXPECT_EQ(counts.begin()->first, 16U);
  EXPECT_EQ(counts.rbegin()->first, 64U);
  double chi = 0, skewed = 0;
  const double expected = draws / 49.0;
  for (const auto& [bytes, count] : counts) {
    chi += std::pow(count - expected, 2) / expected;
    // Expected count under a wrong distribution, in which sizes below 40 bytes are 2 % more frequent and
    // larger ones 2 % rarer.
    const double tilted = expected * (1 + 0.02 * (bytes < 40 ? 1 : -1));
    skewed += std::pow(count - tilted, 2) / tilted;
  }
  EXPECT_LT(chi, 84);  // exceeded with probability 0.1 % at 48 degrees of freedom
  EXPECT_GT(skewed, 84);
}

TEST(Sizes, UsrHasTwoKeySizesAndOneValueSize) {
  const auto keys = sizes({.kind = SizeKind::usr, .least = 1, .most = 128}, SizedData::key);
  EXPECT_EQ(keys->most(), 21U);
  EXPECT_EQ(keys->least(), 16U);
  std::map<std::uint32_t, std::uint64_t> counts;
  for (std::uint64_t i = 0; i < draws; ++i) ++counts[keys->of(mix64(i))];
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_NEAR(static_cast<double>(counts[16]) / draws, 0.5, 0.005);
  const auto values = sizes({.kind = SizeKind::usr, .least = 1, .most = 1024});
  EXPECT_TRUE(values->is_fixed());
  EXPECT_EQ(values->most(), 2U);
}

TEST(Sizes, ZipfianIsYcsbsOverTheSizes) {
  const auto zipfian = sizes({.kind = SizeKind::zipfian, .least = 10, .most = 109});
  const Zipfian expected(100, 0.99);
  EXPECT_LT(distance(*zipfian, [&](double b) { return expected.below(static_cast<std::uint64_t>(b - 9)); }),
            distance_limit);
  const Zipfian flatter(100, 0.95);
  EXPECT_GT(distance(*zipfian, [&](double b) { return flatter.below(static_cast<std::uint64_t>(b - 9)); }),
            distance_limit);
}

TEST(Sizes, SumOfFieldsIsBetweenTheirEnds) {
  const auto fields = sizes({.kind = SizeKind::uniform, .least = 10, .most = 20, .pieces = 10});
  EXPECT_EQ(fields->least(), 100U);
  EXPECT_EQ(fields->most(), 200U);
  double sum = 0, square = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double size = fields->of(mix64(i));
    ASSERT_GE(size, 100);
    ASSERT_LE(size, 200);
    sum += size;
    square += size * size;
  }
  const double mean = sum / draws;
  EXPECT_NEAR(mean, 150, 0.2);
  // Variance of the sum of 10 independent draws, each uniform over 11 integers.
  EXPECT_NEAR(square / draws - mean * mean, 10 * (11.0 * 11 - 1) / 12, 2);
}

TEST(Sizes, BoundsCutAndSayHowMuch) {
  const auto cut = sizes({.kind = SizeKind::etc, .least = 8, .most = 1024});
  std::uint64_t at_most = 0;
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint32_t size = cut->of(mix64(i));
    ASSERT_GE(size, 8U);
    ASSERT_LE(size, 1024U);
    at_most += size == 1024 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(at_most) / draws, cut->cut_share(), 0.003);
  EXPECT_GT(cut->cut_share(), 0.02);
}

TEST(Sizes, TheSameWordHasTheSameSize) {
  const auto first = sizes({.kind = SizeKind::etc, .least = 1, .most = 4096});
  const auto second = sizes({.kind = SizeKind::etc, .least = 1, .most = 4096});
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(first->of(mix64(i)), second->of(mix64(i)));
}

TEST(Sizes, RefusesWhatNoSizeFits) {
  const auto message = [](const SizeSpec& spec) {
    const auto made = Sizes::make(spec, SizedData::value);
    return made ? std::string("taken") : made.error().message;
  };
  EXPECT_EQ(message({.least = 1, .most = 0}), "0 bytes; expected at least 1");
  EXPECT_EQ(message({.kind = SizeKind::uniform, .least = 20, .most = 10}),
            "the least size, 20, is not from 1 to the largest, 10");
  EXPECT_EQ(message({.kind = SizeKind::pareto, .least = 1, .most = 10, .scale = 0}).substr(0, 6), "pareto");
  EXPECT_EQ(message({.kind = SizeKind::uniform, .least = 1, .most = 1 << 29, .pieces = 3}).substr(0, 8),
            "3 fields");
  EXPECT_NE(message({.kind = SizeKind::histogram, .least = 1, .most = 10, .file = "/nowhere"}), "taken");
}

TEST(SizeHistogram, IsYcsbsFile) {
  const auto read = parse_size_histogram("BlockSize\t100\n0\t1\n4\t3\n", "hist.txt");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->block, 100U);
  EXPECT_EQ(read->counts, (std::vector<std::uint64_t>{1, 0, 0, 0, 3}));
  const auto path = std::filesystem::temp_directory_path() / ("loch-hist-" + std::to_string(::getpid()));
  std::ofstream(path) << "BlockSize\t100\n0\t1\n4\t3\n";
  const auto drawn = sizes({.kind = SizeKind::histogram, .least = 1, .most = 1 << 20, .file = path.string()});
  std::filesystem::remove(path);
  EXPECT_EQ(drawn->least(), 100U);
  EXPECT_EQ(drawn->most(), 500U);
  std::uint64_t small = 0;
  for (std::uint64_t i = 0; i < draws; ++i) small += drawn->of(mix64(i)) == 100 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(small) / draws, 0.25, 0.005);
}

TEST(SizeHistogram, NamesTheLineThatItCannotRead) {
  const auto message = [](const char* text) {
    const auto read = parse_size_histogram(text, "h");
    return read ? std::string("taken") : read.error().message.substr(0, 4);
  };
  EXPECT_EQ(message(""), "h:1:");
  EXPECT_EQ(message("Block\t1\n"), "h:1:");
  EXPECT_EQ(message("BlockSize\t0\n0\t1\n"), "h:1:");
  EXPECT_EQ(message("BlockSize\t8\n0 1\n"), "h:2:");
  EXPECT_EQ(message("BlockSize\t8\n0\t1\n1\t-1\n"), "h:3:");
  EXPECT_EQ(message("BlockSize\t8\n99999999999\t1\n"), "h:2:");
  EXPECT_EQ(message("BlockSize\t8\n0\t0\n"), "h:2:");
}

Records records_of(SizeKind keys, SizeKind values) {
  Records::Shape shape{.preloaded = 5000, .most = 5000, .key_size = 64, .value_size = 500};
  if (keys != SizeKind::fixed)
    shape.key_sizes = sizes({.kind = keys, .least = 8, .most = 64}, SizedData::key);
  if (values != SizeKind::fixed) shape.value_sizes = sizes({.kind = values, .least = 8, .most = 500});
  auto made = Records::make(shape);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

TEST(RecordSizes, KeysOfAllSizesAreDistinctEvenWhenPadded) {
  const Records records = records_of(SizeKind::uniform, SizeKind::fixed);
  std::set<std::vector<std::byte>> seen;
  std::set<std::uint32_t> lengths;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    std::vector<std::byte> key(65, std::byte{0xEE});
    records.key(i, key.data());
    const std::uint32_t size = records.key_size(i);
    lengths.insert(size);
    ASSERT_EQ(key[size], std::byte{0xEE}) << "nothing is written behind the key";
    if (size > 11) {
      ASSERT_NE(key[size - 1], std::byte{0}) << "its length is its own";
    }
    std::fill(key.begin() + size, key.end(), std::byte{0});
    ASSERT_TRUE(seen.insert(key).second) << i;
  }
  EXPECT_EQ(lengths.size(), 57U);
}

TEST(RecordSizes, AValueOfAnotherVersionsSizeIsWrong) {
  const Records records = records_of(SizeKind::fixed, SizeKind::uniform);
  std::vector<std::byte> key(64);
  records.key(7, key.data());
  const std::uint64_t digest = kv::key_digest({key.data(), 64});
  std::set<std::uint32_t> lengths;
  for (std::uint64_t sequence = 1; sequence < 200; ++sequence) {
    kv::ValueStamp stamp{.key_digest = digest, .writer = 3, .sequence = sequence};
    stamp.length = records.version_size(digest, 3, sequence);
    lengths.insert(stamp.length);
    std::vector<std::byte> value(stamp.length + 1);
    kv::write_value(stamp, value.data(), stamp.length);
    const kv::ValueView view{value.data(), stamp.length, stamp.length};
    const auto reading = kv::read_value(view, digest, true);
    ASSERT_EQ(reading.verdict, kv::ValueVerdict::verified);
    ASSERT_TRUE(records.is_size_right(reading, stamp.length, digest));
    ASSERT_FALSE(records.is_size_right(reading, stamp.length + 1, digest));
  }
  EXPECT_GT(lengths.size(), 150U) << "a PUT draws a new size";
}

TEST(RecordSizes, KeysTooShortToDifferAreRefused) {
  Records::Shape shape{.preloaded = 10, .most = 10, .key_size = 64, .value_size = 8};
  shape.key_sizes = sizes({.kind = SizeKind::uniform, .least = 4, .most = 64}, SizedData::key);
  const auto made = Records::make(shape);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "key-size-min: keys of different sizes have at least 8 bytes, and not 4");
}

}  // namespace
}  // namespace loch::workloads
