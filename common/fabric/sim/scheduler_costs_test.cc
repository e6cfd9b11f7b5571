// Checks the scheduler's costs against values that were computed by hand.
#include "common/fabric/sim/scheduler_costs.h"

#include <gtest/gtest.h>

namespace loch::fabric::sim {
namespace {

TEST(SchedulerCosts, VirtualTimeRunsSlowerForAHeavierThread) {
  EXPECT_EQ(virtual_runtime(1001, 1024), 1001);
  EXPECT_EQ(virtual_runtime(3000, 3072), 1000);
  EXPECT_EQ(virtual_runtime(3000, 512), 6000);
}

// On 8 and more cores Linux 3.13 has a scheduling period of 24 ms for up to 8 threads, and of 3 ms per thread
// for more.
TEST(SchedulerCosts, ASliceIsTheThreadsShareOfThePeriod) {
  constexpr Nanos ms = 1'000'000;
  EXPECT_EQ(time_slice(24 * ms, 3 * ms, 2, 1024, 2048), 12 * ms);
  EXPECT_EQ(time_slice(24 * ms, 3 * ms, 8, 1024, 8 * 1024), 3 * ms);
  EXPECT_EQ(time_slice(24 * ms, 3 * ms, 9, 1024, 9 * 1024), 3 * ms);
  EXPECT_EQ(time_slice(24 * ms, 3 * ms, 2, 3072, 4096), 18 * ms);
  EXPECT_EQ(time_slice(24 * ms, 3 * ms, 10, 3072, 12'288), 7'500'000);
}

TEST(SchedulerCosts, ASleeperComesBackAtMostItsCreditBehind) {
  EXPECT_EQ(woken_runtime(100, 1000, 300), 700);
  EXPECT_EQ(woken_runtime(800, 1000, 300), 800);
}

TEST(SchedulerCosts, BusyThreadsSlowEachOther) {
  EXPECT_EQ(crowding(0, 48, 0.1, 0.5), 1);
  EXPECT_EQ(crowding(24, 48, 0.1, 0.5), 1 + 0.1 / 4);
  EXPECT_EQ(crowding(48, 48, 0.1, 0.5), 1 + 0.1);
  EXPECT_EQ(crowding(72, 48, 0.1, 0.5), 1 + 0.1 + 0.5 / 2);
  EXPECT_EQ(crowding(96, 48, 0.1, 0.5), 1 + 0.1 + 0.5);
  EXPECT_EQ(crowded(165, 1.1), 182);
  EXPECT_EQ(crowded(165, 1), 165);
}

TEST(SchedulerCosts, AThreadWaitsForTheSwitchAndForAnIdleCore) {
  EXPECT_EQ(dispatch_time(false, 1500, false, 200, 10), 0);
  EXPECT_EQ(dispatch_time(true, 1500, false, 200, 10), 1500);
  EXPECT_EQ(dispatch_time(false, 1500, true, 200, 10), 210);
  EXPECT_EQ(dispatch_time(true, 1500, true, 200, 10), 1710);
}

}  // namespace
}  // namespace loch::fabric::sim
