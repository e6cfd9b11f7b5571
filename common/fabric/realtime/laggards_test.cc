// Tests of how long a run waits for clients that have not ended when others have.
#include "common/fabric/realtime/laggards.h"

#include <gtest/gtest.h>

namespace loch::fabric::realtime {
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

// If no client ever ends, none counts as late; the limit of the run (700 ns here) ends it all the same.
TEST(Laggards, ARunThatIsLimitedEndsThoughNobodyHas) {
  Laggards run(1000, 50, 700);
  EXPECT_FALSE(run.is_over(1700, false));
  EXPECT_TRUE(run.is_over(1701, false));
}

TEST(Laggards, TheLineNamesLateAndLostNodes) {
  EXPECT_EQ(late_text("ofi", {0, 2}, {}, true),
            "ofi: the clients of node 0, 2 have not ended, long after the run's time");
  EXPECT_EQ(late_text("verbs", {0}, {1}, false),
            "verbs: the clients of node 0 have not ended, long after those of the others or the run's time; "
            "node 1 is lost");
}

}  // namespace
}  // namespace loch::fabric::realtime
