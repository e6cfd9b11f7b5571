// Tests Divisor against the processor's division, around multiples of the divisor and at random numbers.
#include "common/base/divisor.h"

#include <gtest/gtest.h>

#include "common/base/rng.h"

namespace loch {
namespace {

void expect_same(std::uint64_t n, std::uint64_t divisor) {
  const Divisor fast(divisor);
  ASSERT_TRUE(fast.covers(n)) << n << " / " << divisor;
  ASSERT_EQ(fast.quotient(n), n / divisor) << n << " / " << divisor;
  ASSERT_EQ(fast.remainder(n), n % divisor) << n << " / " << divisor;
}

TEST(Divisor, EqualsDivisionAroundMultiples) {
  for (const std::uint64_t divisor :
       {2ULL, 3ULL, 64ULL, 128ULL, 1052ULL, 4096ULL, 16'428ULL, (1ULL << 30) - 1}) {
    const std::uint64_t most = ~std::uint64_t{0} / divisor;
    for (const std::uint64_t times : {std::uint64_t{1}, most / divisor / 2, most / divisor - 1}) {
      const std::uint64_t n = times * divisor;
      expect_same(n - 1, divisor);
      expect_same(n, divisor);
      expect_same(n + 1, divisor);
    }
    expect_same(0, divisor);
    expect_same(most, divisor);
  }
}

TEST(Divisor, EqualsDivisionOfRandomNumbers) {
  Rng rng(7, "divisor");
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t divisor = 2 + (rng() >> (32 + rng.below(30)));
    expect_same(rng.below(~std::uint64_t{0} / divisor), divisor);
  }
}

TEST(Divisor, KnowsWhatItCovers) {
  const Divisor divisor(std::uint64_t{1} << 24);
  EXPECT_TRUE(divisor.covers((std::uint64_t{1} << 40) - 1));
  EXPECT_FALSE(divisor.covers(std::uint64_t{1} << 40));
}

TEST(Divisor, NoneGivesZero) {
  EXPECT_EQ(Divisor(0).quotient(12), 0u);
  EXPECT_TRUE(Divisor().covers(~std::uint64_t{0}));
}

}  // namespace
}  // namespace loch
