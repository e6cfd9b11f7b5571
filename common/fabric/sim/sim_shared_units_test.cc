// Tests what READs cost a NIC that both requests and answers them: the unit that transmits requests and
// answers, its stall for a queue pair's context, and segments of long READs.
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

constexpr std::uint32_t workers = 4, slots = 8;

coro::Task<void> read_on(TestCluster* cluster, std::uint32_t client, std::uint32_t slot, std::uint32_t lanes,
                         std::uint32_t bytes, int rounds) {
  Worker& self = *cluster->clients[client];
  const auto peer = static_cast<NodeId>(1 - self.node());
  for (int i = 0; i < rounds; ++i) {
    WorkRequest request;
    request.verb = Verb::read;
    request.peer = peer;
    request.lane = static_cast<std::uint8_t>((slot + static_cast<std::uint32_t>(i)) % lanes);
    request.remote = cluster->remote[peer];
    request.local = cluster->at(self.node(), (self.index() * slots + slot) * std::uint64_t{1024});
    request.length = bytes;
    const Completion done = co_await self.execute(request);
    EXPECT_TRUE(done.ok());
  }
}

coro::Task<void> read_all(TestCluster* cluster, std::uint32_t client, std::uint32_t lanes,
                          std::uint32_t bytes, int rounds) {
  coro::Scope scope(cluster->clients[client]->run_queue());
  for (std::uint32_t slot = 0; slot < slots; ++slot)
    scope.spawn(read_on(cluster, client, slot, lanes, bytes, rounds));
  co_await scope.join();
}

// A profile in which only the NIC limits the rate of READs: 100 ns for a request, 150 ns for an answer, and
// 10 ns for an arriving answer.
HardwareProfile slow_nic() {
  HardwareProfile profile = small_config(2, "connectx3-56g-ib").hardware;
  profile.nic.request_read_ns = 100;
  profile.nic.respond_read_ns = 150;
  profile.nic.response_ns = 10;
  profile.nic.is_transmit_shared = false;
  profile.nic.context_stall_ns = 0;
  profile.nic.segment_bytes = 0;
  profile.nic.queue_pair_entries = 0;
  return profile;
}

// Mean time in ns between two READs of node 0, while `askers` of the two nodes READ from the other one: node
// 0 alone (1), or both (2).
double read_gap(const HardwareProfile& profile, std::uint32_t askers, std::uint32_t lanes = 1,
                std::uint32_t bytes = 8) {
  constexpr int rounds = 400;
  SimConfig config = small_config(2, "connectx3-56g-ib");
  config.hardware = profile;
  TestCluster cluster(config, workers);
  for (std::uint32_t client = 0; client < askers * workers; ++client)
    cluster.fabric->start(*cluster.clients[client], read_all(&cluster, client, lanes, bytes, rounds));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  return static_cast<double>(cluster.clients[0]->now()) / (workers * slots * rounds);
}

TEST(SharedUnits, RequestsAndAnswersLeaveThroughOneUnit) {
  HardwareProfile profile = slow_nic();
  EXPECT_NEAR(read_gap(profile, 1), 150, 4) << "one node asks: the other's answers limit it";
  EXPECT_NEAR(read_gap(profile, 2), 150 + 10, 4) << "apart, answers and what arrives are one unit's work";
  profile.nic.is_transmit_shared = true;
  EXPECT_NEAR(read_gap(profile, 1), 150, 4) << "nothing changes for a node that only asks or answers";
  EXPECT_NEAR(read_gap(profile, 2), 100 + 150, 4);
}

TEST(SharedUnits, TheUnitIsBusyUntilTheAnswerIsOnTheLink) {
  HardwareProfile profile = slow_nic();
  profile.nic.is_transmit_shared = true;
  profile.link.gbits_s = 16;  // 2 bytes per ns on the link
  const WireBytes wire = wire_bytes(Verb::read, Transport::rc, 1000, 4096, LinkFormat::infiniband);
  const double answer = static_cast<double>(wire.response + profile.link.framing_bytes) / 2;
  ASSERT_GT(answer, 500);
  EXPECT_NEAR(read_gap(profile, 2, 1, 1000), 100 + answer, 8);
}

TEST(SharedUnits, AMissStallsWhatIsSent) {
  HardwareProfile profile = slow_nic();
  profile.nic.is_transmit_shared = true;
  // the NIC's context cache holds 4 of the 64 queue pairs at each NIC (2 nodes x 4 workers x 8)
  profile.nic.queue_pair_entries = 4;
  EXPECT_NEAR(read_gap(profile, 2, 8), 250, 8) << "without a stall, misses are latency that others hide";
  profile.nic.context_stall_ns = 400;
  // for each READ of its own a node also answers one, and for both READs the queue pair's context misses the
  // NIC's cache
  EXPECT_NEAR(read_gap(profile, 2, 8), 250 + 2 * 400, 40);
  EXPECT_NEAR(read_gap(profile, 1, 8), 150 + 400, 20);
  profile.nic.queue_pair_entries = 256;
  EXPECT_NEAR(read_gap(profile, 2, 8), 250, 8) << "contexts that are there stall nothing";
}

TEST(SharedUnits, AQueuePairHasOneOfTheUnits) {
  HardwareProfile profile = slow_nic();
  profile.nic.is_transmit_shared = true;
  profile.nic.transmit_units = 4;
  profile.nic.queue_pair_entries = 256;
  EXPECT_NEAR(read_gap(profile, 1, 1), 150, 12) << "four workers' queue pairs, one for each unit";
  EXPECT_NEAR(read_gap(profile, 2, 8), 250, 12) << "32 connections at a NIC, 8 for each unit";
  profile.nic.transmit_units = 16;
  // Node 1 only answers, over four queue pairs, so four of its 16 units are busy; each takes 16 times 150 ns
  // for an answer.
  EXPECT_NEAR(read_gap(profile, 1, 1), 16 * 150 / 4, 20);
}

TEST(SharedUnits, ASegmentMoreIsAStep) {
  HardwareProfile profile = slow_nic();
  profile.nic.is_transmit_shared = true;
  profile.nic.segment_bytes = 256;
  profile.nic.segment_ns = 50;
  EXPECT_NEAR(read_gap(profile, 2, 1, 256), 100 + 150, 5);
  EXPECT_NEAR(read_gap(profile, 2, 1, 257), 100 + 150 + 2 * 50, 5);
  EXPECT_NEAR(read_gap(profile, 1, 1, 257), 150 + 50, 5);
  EXPECT_NEAR(read_gap(profile, 2, 1, 513), 100 + 150 + 4 * 50, 5);
}

}  // namespace
}  // namespace loch::fabric::sim
