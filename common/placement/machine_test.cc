// Tests that machines are read as hwloc describes them.
#include "common/placement/machine.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>

namespace loch::placement {
namespace {

TEST(Machine, HasCoresHyperThreadsAndNumaNodes) {
  const auto machine = synthetic_machine("Package:2 [NUMANode] Core:8 PU:2");
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  ASSERT_EQ(machine->cpus.size(), 32U);
  EXPECT_EQ(machine->cpus[0], (Cpu{0, 0, 0}));
  EXPECT_EQ(machine->cpus[1], (Cpu{1, 0, 0}));
  EXPECT_EQ(machine->cpus[17], (Cpu{17, 8, 1}));
  EXPECT_EQ(machine->numa_nodes.size(), 2U);
  EXPECT_TRUE(machine->has_numa_node(1));
  EXPECT_FALSE(machine->has_numa_node(2));
}

TEST(Machine, CpusHaveTheNumbersOfTheKernel) {
  // The numbering of most servers: the second hyper-threads come after all first ones.
  const auto machine = synthetic_machine("NUMANode:1 Core:4 PU:2(indexes=0,4,1,5,2,6,3,7)");
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->cpus[1], (Cpu{1, 1, 0}));
  EXPECT_EQ(machine->cpus[5], (Cpu{5, 1, 0}));
}

TEST(Machine, ANumaNodeOfTheSameSocketIsNearerThanOneOfAnother) {
  const auto machine = synthetic_machine("Package:2 NUMANode:2 Core:4 PU:1");
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->distance(2, 2), 0U);
  EXPECT_LT(machine->distance(2, 3), machine->distance(2, 1));
  EXPECT_EQ(machine->distance(2, 1), machine->distance(2, 0));
  EXPECT_GT(machine->distance(2, 9), machine->distance(2, 0));
}

TEST(Machine, ThisMachineHasTheCpusThatThisThreadMayUse) {
  const auto machine = this_machine();
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) EXPECT_EQ(std::ranges::count(machine->cpus, cpu, &Cpu::number), 1) << cpu;
  }
  EXPECT_FALSE(machine->numa_nodes.empty());
}

TEST(Machine, ADescriptionThatIsNoneIsRefused) {
  const auto machine = synthetic_machine("Pakage:2");
  ASSERT_FALSE(machine.has_value());
  EXPECT_EQ(machine.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(machine.error().message, testing::HasSubstr("Pakage:2"));
}

}  // namespace
}  // namespace loch::placement
