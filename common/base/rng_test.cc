// Tests independence of random sub-streams and the distributions drawn from them.
#include "common/base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace loch {
namespace {

TEST(Rng, SubStreamsAreIndependentOfEachOther) {
  Rng net(7, "net");
  Rng host(7, "host", 3);
  EXPECT_NE(net(), host());
  EXPECT_EQ(Rng(7, "net")(), Rng(7, "net")());
  EXPECT_NE(Rng(7, "host", 3)(), Rng(7, "host", 4)());
}

TEST(Rng, BelowIsUniform) {
  Rng rng(1);
  std::array<int, 10> seen{};
  for (int i = 0; i < 100'000; ++i) ++seen[rng.below(10)];
  double chi2 = 0;
  for (const int n : seen) chi2 += (n - 1e4) * (n - 1e4) / 1e4;
  EXPECT_LT(chi2, 27.9);  // critical value of the chi-squared test for 9 degrees of freedom and p = 0.001
}

TEST(Rng, ExponentialHasItsMean) {
  Rng rng(2);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) sum += rng.exponential(5.0);
  EXPECT_NEAR(sum / 1e5, 5.0, 0.1);
}

}  // namespace
}  // namespace loch
