// Tests that a request is executed once and answered again.
#include "common/rpc/duplicates.h"

#include <gtest/gtest.h>

namespace loch::rpc {
namespace {

TEST(Duplicates, ARequestIsExecutedOnceAndAnsweredAgain) {
  Duplicates known(2);
  EXPECT_EQ(known.judge(0, 5), Freshness::fresh) << "any number may be the first";
  known.executed(0, 5, 1032);
  EXPECT_EQ(known.judge(0, 5), Freshness::repeated);
  EXPECT_EQ(known.reply_bytes(0), 1032u);
  EXPECT_EQ(known.judge(0, 6), Freshness::fresh);
  EXPECT_EQ(known.judge(0, 4), Freshness::stale);
  EXPECT_EQ(known.judge(1, 5), Freshness::fresh) << "slots do not know of one another";
}

// A restarted client takes its first sequence number from its clock, far above the numbers that it used
// before.
TEST(Duplicates, NumbersMayJump) {
  Duplicates known(1);
  known.executed(0, 5, 8);
  EXPECT_EQ(known.judge(0, 1'000'000'000), Freshness::fresh);
  known.executed(0, 1'000'000'000, 8);
  EXPECT_EQ(known.judge(0, 6), Freshness::stale);
}

TEST(Duplicates, AWordIsNewsUntilItWasLookedAt) {
  Duplicates known(1);
  EXPECT_FALSE(known.is_news(0, 0)) << "an empty slot";
  EXPECT_TRUE(known.is_news(0, 9));
  known.looked_at(0, 9);
  EXPECT_FALSE(known.is_news(0, 9));
  EXPECT_TRUE(known.is_news(0, 10)) << "another attempt";
}

}  // namespace
}  // namespace loch::rpc
