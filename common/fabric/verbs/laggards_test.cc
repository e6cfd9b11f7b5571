// Tests how long a run waits for clients that still run after other clients have ended.
#include "common/fabric/verbs/laggards.h"

#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

TEST(Laggards, NobodyIsLateBeforeSomebodyHasEnded) {
  Laggards run(1000, 50);
  EXPECT_FALSE(run.is_over(1'000'000, false));
}

TEST(Laggards, TheRestHasAsLongAgain) {
  Laggards run(1000, 50);
  EXPECT_FALSE(run.is_over(1400, true));
  EXPECT_FALSE(run.is_over(1800, true));
  EXPECT_TRUE(run.is_over(1801, true));
}

TEST(Laggards, AfterAShortRunTheRestHasTheLeast) {
  Laggards run(1000, 50);
  EXPECT_FALSE(run.is_over(1001, true));
  EXPECT_FALSE(run.is_over(1051, false));
  EXPECT_TRUE(run.is_over(1052, false));
}

}  // namespace
}  // namespace loch::fabric::verbs
