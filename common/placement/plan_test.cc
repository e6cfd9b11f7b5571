// Tests the planning of CPUs and memory on synthetic machines.
#include "common/placement/plan.h"

#include <gmock/gmock.h>

#include <set>

namespace loch::placement {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using Numbers = std::vector<std::uint32_t>;

constexpr auto two_sockets = "Package:2 [NUMANode] Core:8 PU:2";
constexpr auto four_nodes = "Package:4 [NUMANode] Core:4 PU:1";
constexpr auto one_core = "NUMANode:1 Core:1 PU:1";
constexpr auto sub_numa = "Package:2 NUMANode:2 Core:4 PU:2";
constexpr auto late_siblings = "Package:1 [NUMANode] Core:4 PU:2(indexes=0,4,1,5,2,6,3,7)";

Machine machine_of(const char* description) {
  auto machine = synthetic_machine(description);
  EXPECT_TRUE(machine.has_value()) << machine.error().message;
  return machine.value_or(Machine{});
}

Numbers all_cpus(const Machine& machine) {
  Numbers all;
  for (const Cpu& cpu : machine.cpus) all.push_back(cpu.number);
  return all;
}

std::vector<NodePlan> planned(const Machine& machine, Numbers workers,
                              std::optional<std::uint32_t> nic = std::nullopt, Numbers allowed = {}) {
  if (allowed.empty()) allowed = all_cpus(machine);
  auto plans = plan(machine, {.allowed = allowed, .nic_numa_node = nic, .workers = std::move(workers)});
  EXPECT_TRUE(plans.has_value()) << plans.error().message;
  return plans.value_or(std::vector<NodePlan>());
}

Numbers numbers(const NodePlan& plan) {
  Numbers all;
  for (const Cpu& cpu : plan.workers) all.push_back(cpu.number);
  return all;
}

Numbers cores(const NodePlan& plan) {
  Numbers all;
  for (const Cpu& cpu : plan.workers) all.push_back(cpu.core);
  return all;
}

std::size_t distinct(const Numbers& all) { return std::set(all.begin(), all.end()).size(); }

std::uint32_t workers_on(const NodePlan& plan, std::uint32_t numa_node) {
  return static_cast<std::uint32_t>(std::ranges::count(plan.workers, numa_node, &Cpu::numa_node));
}

TEST(Plan, WorkersAreOnTheNicsNumaNode) {
  const Machine machine = machine_of(two_sockets);
  for (const std::uint32_t nic : {0U, 1U}) {
    const auto plans = planned(machine, {6}, nic);
    EXPECT_THAT(plans[0].workers, Each(Field(&Cpu::numa_node, nic)));
    EXPECT_EQ(plans[0].memory_numa_node, nic);
  }
  EXPECT_THAT(numbers(planned(machine, {3}, 1)[0]), ElementsAre(16, 18, 20));
}

TEST(Plan, CoresOfAnotherSocketComeBeforeHyperThreads) {
  const Machine machine = machine_of(two_sockets);
  const NodePlan full = planned(machine, {10}, 1)[0];
  EXPECT_EQ(distinct(cores(full)), 10U);
  EXPECT_EQ(workers_on(full, 1), 8U);
  EXPECT_EQ(full.memory_numa_node, 1U);
  const NodePlan more = planned(machine, {20}, 1)[0];
  EXPECT_EQ(distinct(cores(more)), 16U);
  EXPECT_EQ(workers_on(more, 1), 12U);  // 8 cores, and the hyper-threads of 4 of them
}

TEST(Plan, TheCoreOfTheLowestCpuIsLeftWhereThereAreEnoughCores) {
  const Machine machine = machine_of(two_sockets);
  EXPECT_THAT(cores(planned(machine, {7}, 0)[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(cores(planned(machine, {15}, 1)[0]), testing::Not(testing::Contains(0)));
  EXPECT_THAT(cores(planned(machine, {16}, 1)[0]), testing::Contains(0));
  // Eight workers take all eight cores of the NIC's NUMA node, even that of the machine's lowest CPU, which
  // is left free where others suffice.
  EXPECT_THAT(planned(machine, {8}, 0)[0].workers, Each(Field(&Cpu::numa_node, 0)));
  EXPECT_THAT(numbers(planned(machine_of("NUMANode:1 Core:2 PU:1"), {1})[0]), ElementsAre(1));
}

TEST(Plan, StoreNodesOfAHostHaveCoresOfTheirOwn) {
  for (const char* description : {two_sockets, four_nodes, sub_numa}) {
    const Machine machine = machine_of(description);
    const auto plans = planned(machine, {3, 4, 2}, 1);
    std::set<std::uint32_t> used;
    for (const NodePlan& each : plans) {
      for (const std::uint32_t core : cores(each)) EXPECT_TRUE(used.insert(core).second) << description;
    }
    EXPECT_EQ(used.size(), 9U);
  }
}

TEST(Plan, StoreNodesShareNoCoreAlsoWhereWorkersNeedHyperThreads) {
  const Machine machine = machine_of(two_sockets);
  const auto plans = planned(machine, {16, 16}, 0);
  std::set<std::uint32_t> both;
  for (const NodePlan& each : plans) {
    const Numbers all = cores(each);
    const std::set own(all.begin(), all.end());
    EXPECT_EQ(own.size(), 8U);
    both.insert(own.begin(), own.end());
  }
  EXPECT_EQ(both.size(), 16U);
}

TEST(Plan, WithoutANicAStoreNodeStaysWithinANumaNodeWithItsMemory) {
  const Machine machine = machine_of(four_nodes);
  const auto plans = planned(machine, {3, 3, 3, 3});
  std::set<std::uint32_t> homes;
  for (const NodePlan& each : plans) {
    EXPECT_THAT(each.workers, Each(Field(&Cpu::numa_node, each.memory_numa_node)));
    homes.insert(each.memory_numa_node);
  }
  EXPECT_EQ(homes.size(), 4U);
}

TEST(Plan, FourNumaNodesAreFilledFromTheNicsOn) {
  const Machine machine = machine_of(four_nodes);
  const auto plans = planned(machine, {4, 4}, 2);
  EXPECT_EQ(workers_on(plans[0], 2), 4U);
  EXPECT_EQ(workers_on(plans[1], 2), 0U);
  EXPECT_EQ(plans[0].memory_numa_node, 2U);
  EXPECT_EQ(plans[1].memory_numa_node, 2U);  // the NIC's NUMA node
}

TEST(Plan, TheOtherHalfOfASocketIsNextWithSubNuma) {
  const Machine machine = machine_of(sub_numa);
  const NodePlan each = planned(machine, {7}, 2)[0];
  EXPECT_EQ(workers_on(each, 2), 4U);
  EXPECT_EQ(workers_on(each, 3), 3U);
  EXPECT_EQ(each.memory_numa_node, 2U);
}

TEST(Plan, OnlyAllowedCpusAreUsed) {
  const Machine machine = machine_of(two_sockets);
  const Numbers allowed = {1, 5, 7, 9, 20, 21, 22};  // on 4 cores of NUMA node 0, and on 2 of NUMA node 1
  const NodePlan each = planned(machine, {6}, 0, allowed)[0];
  EXPECT_THAT(numbers(each), ElementsAre(5, 7, 9, 1, 20, 22));
  EXPECT_THAT(numbers(planned(machine, {7}, 0, allowed)[0]), ElementsAre(5, 7, 9, 1, 20, 22, 21));
  EXPECT_THAT(numbers(planned(machine, {2}, 0, {30, 31, 999})[0]), ElementsAre(30, 31));
}

TEST(Plan, HyperThreadsAreKnownHoweverTheKernelNumbersThem) {
  const Machine machine = machine_of(late_siblings);
  EXPECT_THAT(numbers(planned(machine, {4})[0]), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(numbers(planned(machine, {3, 3})[1]),
              testing::Not(testing::Contains(testing::AnyOf(1, 5, 2, 6))));
}

TEST(Plan, OneCoreHoldsOneWorker) {
  const Machine machine = machine_of(one_core);
  EXPECT_THAT(numbers(planned(machine, {1})[0]), ElementsAre(0));
  const auto refused = plan(machine, {.allowed = {0}, .nic_numa_node = 0, .workers = {1, 1}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().message, "2 workers on this host, and 1 CPU that the process may use");
}

TEST(Plan, AnUnknownNicNumaNodeIsAsNone) {
  const Machine machine = machine_of(two_sockets);
  EXPECT_EQ(numbers(planned(machine, {5}, 7)[0]), numbers(planned(machine, {5})[0]));
}

TEST(Plan, IsAPartitionOfCpusForAnyDemand) {
  for (const char* description : {two_sockets, four_nodes, one_core, sub_numa, late_siblings}) {
    const Machine machine = machine_of(description);
    for (std::uint32_t workers = 1; workers <= machine.cpus.size(); ++workers) {
      for (std::uint32_t first = 0; first <= workers; ++first) {
        std::set<std::uint32_t> used;
        for (const NodePlan& each : planned(machine, {first, workers - first}, 0)) {
          for (const std::uint32_t cpu : numbers(each)) EXPECT_TRUE(used.insert(cpu).second);
        }
        EXPECT_EQ(used.size(), workers) << description;
      }
    }
  }
}

}  // namespace
}  // namespace loch::placement
