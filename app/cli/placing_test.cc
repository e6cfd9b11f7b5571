// Tests which workers are counted for a machine, and whether they are pinned, left unpinned, or refused with
// an error.
#include "app/cli/placing.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <set>

#include "common/background_load/cores.h"

namespace loch::cli {
namespace {

using testing::HasSubstr;

// While an object of this class lives, hwloc reports the machine that `description` describes instead of the
// real machine.
class OnMachine {
 public:
  explicit OnMachine(const char* description) { setenv("HWLOC_SYNTHETIC", description, 1); }
  ~OnMachine() { unsetenv("HWLOC_SYNTHETIC"); }
  OnMachine(const OnMachine&) = delete;
  OnMachine& operator=(const OnMachine&) = delete;
};

BenchOptions options(std::uint32_t nodes, std::uint32_t clients, std::uint32_t servers) {
  BenchOptions o;
  o.fabric = "shm";
  o.nodes = nodes;
  o.clients = clients;
  o.servers = servers;
  o.pin = true;
  o.background_pin = "none";
  return o;
}

std::vector<fabric::NodeDevice> devices_on(const std::vector<std::string>& hosts) {
  std::vector<fabric::NodeDevice> all;
  for (const std::string& host : hosts) {
    fabric::NodeDevice device;
    device.node = static_cast<fabric::NodeId>(all.size());
    device.host = host;
    all.push_back(device);
  }
  return all;
}

std::uint32_t usable() { return static_cast<std::uint32_t>(background::usable_cores().size()); }

TEST(Placing, AProcessWithAllNodesHasTheWorkersOfAll) {
  BenchOptions o = options(3, 2, 4);
  o.server_nodes = 1;
  const HostNodes host = nodes_of_one_machine(o, 0, 1);
  ASSERT_EQ(host.nodes.size(), 3U);
  EXPECT_EQ(host.nodes[0].servers, 4U);
  EXPECT_EQ(host.nodes[0].clients, 0U);
  EXPECT_EQ(host.nodes[1].clients, 2U);
  EXPECT_EQ(host.nodes[1].servers, 0U);
  EXPECT_EQ(host.own, 3U);
  const HostNodes second = nodes_of_one_machine(o, 1, 3);
  EXPECT_EQ(second.first, 1U);
  EXPECT_EQ(second.own, 1U);
}

TEST(Placing, OnlyNodesOfTheSameHostShareItsCores) {
  BenchOptions o = options(4, 2, 4);
  o.server_nodes = 1;
  const HostNodes host = nodes_of_this_host(o, devices_on({"a", "b", "a", "b"}), 2, 0, 0);
  ASSERT_EQ(host.nodes.size(), 2U);
  EXPECT_EQ(host.nodes[0].servers, 4U);
  EXPECT_EQ(host.nodes[1].clients, 2U);
  EXPECT_EQ(host.first, 1U);
  EXPECT_TRUE(host.is_known);
}

TEST(Placing, ARestartedProcessGoesByTheLaunchersWord) {
  BenchOptions o = options(4, 2, 4);
  o.server_nodes = 1;
  const HostNodes host = nodes_of_this_host(o, devices_on({"a"}), 3, 1, 2);
  ASSERT_EQ(host.nodes.size(), 2U);
  EXPECT_EQ(host.nodes[0].servers, 4U);  // another process's node: assumed to be as large as the largest node
  EXPECT_EQ(host.nodes[1].clients, 2U);  // this process's own node: its workers are known exactly
  EXPECT_EQ(host.first, 1U);
  EXPECT_TRUE(host.is_known);
  EXPECT_FALSE(nodes_of_this_host(o, devices_on({"a"}), 3, 0, 0).is_known);
}

TEST(Placing, WorkersThatTakeTurnsOnSimulatedCoresAreNamed) {
  BenchOptions o = options(6, 12, 1);
  EXPECT_NE(name_crowding(o, 12).find("13 workers (clients 12, servers 1) take turns on its 12 cores"),
            std::string::npos);
  EXPECT_EQ(name_crowding(o, 13), "");
  o.server_nodes = 1;  // servers and clients on different nodes
  EXPECT_EQ(name_crowding(o, 12), "");
  o.clients = 13;
  o.background_workers = 2;  // background workers, which are to compete for the cores
  EXPECT_EQ(name_crowding(o, 12), "");
}

TEST(Placing, ProcessesOfAHostGetDisjointCpus) {
  if (usable() < 2) GTEST_SKIP() << "one CPU";
  const BenchOptions o = options(2, 1, 0);
  std::set<std::uint32_t> cpus;
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto placing = place_workers(o, nodes_of_one_machine(o, rank, 2), {});
    ASSERT_TRUE(placing.has_value()) << placing.error().message;
    ASSERT_EQ(placing->own_cpus().size(), 1U);
    cpus.insert(placing->own_cpus().front());
    EXPECT_EQ(placing->memory_numa_nodes(rank).size(), rank + 1);
  }
  EXPECT_EQ(cpus.size(), 2U);
  const auto together = place_workers(o, nodes_of_one_machine(o, 0, 1), {});
  ASSERT_TRUE(together.has_value());
  EXPECT_EQ(together->own_cpus().size(), 2U);
}

TEST(Placing, TooFewCpusAreRefusedIfTheFlagWasGivenAndElseSaid) {
  const OnMachine one("NUMANode:1 Core:1 PU:1");
  BenchOptions o = options(2, 1, 0);
  const auto left = place_workers(o, nodes_of_one_machine(o, 0, 1), {});
  ASSERT_TRUE(left.has_value());
  EXPECT_FALSE(left->is_pinned());
  EXPECT_THAT(left->own_cpus(), testing::IsEmpty());
  EXPECT_THAT(left->memory_numa_nodes(0), testing::IsEmpty());
  EXPECT_THAT(left->reason, HasSubstr("2 workers on this host, and"));
  o.pin_is_given = true;
  const auto refused = place_workers(o, nodes_of_one_machine(o, 0, 1), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(refused.error().message, testing::StartsWith("--pin: 2 workers on this host, and"));
  EXPECT_THAT(refused.error().message, testing::Not(HasSubstr("\n")));
}

TEST(Placing, BackgroundWorkersThatNeedPinnedWorkersAreRefusedWithoutThem) {
  const OnMachine one("NUMANode:1 Core:1 PU:1");
  BenchOptions o = options(2, 1, 0);
  o.background_workers = 1;
  o.background_pin = "separate";
  const auto refused = place_workers(o, nodes_of_one_machine(o, 0, 1), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::StartsWith("--hog-pin separate: workers have no cores"));
}

TEST(Placing, WorkersAreNotPinnedWhereItIsUnknownWhoSharesTheHost) {
  BenchOptions o = options(2, 1, 0);
  HostNodes host = nodes_of_this_host(o, {}, 0, 0, 0);
  const auto left = place_workers(o, host, {});
  ASSERT_TRUE(left.has_value());
  EXPECT_FALSE(left->is_pinned());
  EXPECT_THAT(left->reason, HasSubstr("launcher"));
  o.pin_is_given = true;  // --pin, although the launcher does not say which processes share the host
  const auto pinned = place_workers(o, host, {});
  ASSERT_TRUE(pinned.has_value()) << pinned.error().message;
  EXPECT_TRUE(pinned->is_pinned());
}

TEST(Placing, TheResultSaysWhatTheKernelDid) {
  const BenchOptions o = options(1, 1, 0);
  const auto placing = place_workers(o, nodes_of_one_machine(o, 0, 1), 0);
  ASSERT_TRUE(placing.has_value()) << placing.error().message;
  ASSERT_TRUE(placing->is_pinned());
  const auto done =
      to_json(*placing, o, 0, {{"shm.pinned", 1}, {"shm.region_bytes", 8192}, {"shm.bound_bytes", 4096}});
  EXPECT_EQ(done["pinned"], true);
  EXPECT_EQ(done["reason"], nullptr);
  EXPECT_EQ(done["nic_numa_node"], 0);
  ASSERT_EQ(done["workers"].size(), 1U);
  EXPECT_EQ(done["workers"][0]["cpu"], placing->own_cpus().front());
  EXPECT_EQ(done["workers"][0]["role"], "client");
  EXPECT_EQ(done["memory"]["bytes"], 8192);
  EXPECT_EQ(done["memory"]["bound_bytes"], 4096);
  EXPECT_EQ(to_json(*placing, o, 0, {{"shm.pinned", 0}})["pinned"], false);
}

}  // namespace
}  // namespace loch::cli
