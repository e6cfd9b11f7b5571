// Tests the simulation: a request's latency is the sum of its steps' latencies (CPU, NICs, PCIe, network),
// the same seed gives the same run, and requests allocate nothing.
#include <cmath>
#include <cstring>

#include "common/fabric/sim/microbenchmark.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

coro::Task<void> read_again(TestCluster* cluster, std::uint32_t worker, std::uint32_t bytes, int rounds,
                            Nanos* took) {
  Worker& self = *cluster->clients[worker];
  const auto peer = static_cast<NodeId>((self.node() + 1) % cluster->fabric->nodes());
  for (int i = 0; i < rounds; ++i) {
    const LocalSlice to = cluster->at(self.node(), 65536);
    const Nanos from = self.now();
    const Completion done = co_await self.read(cluster->remote[peer], 0, to, bytes);
    EXPECT_TRUE(done.ok());
    *took = self.now() - from;
  }
}

TEST(SimStages, AnUnloadedReadIsTheSumOfItsConstants) {
  for (const Posting posting : {Posting::doorbell, Posting::libmlx4}) {
    SimConfig config = small_config();
    config.hardware.nic.posting = posting;
    TestCluster cluster(config);
    Nanos took = 0;
    cluster.fabric->start(*cluster.clients[0], read_again(&cluster, 0, 8, 3, &took));
    ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    const HardwareProfile& p = config.hardware;
    const WireBytes wire = wire_bytes(Verb::read, Transport::rc, 8, p.link.mtu_bytes, p.link.format);
    const double wire_ns =
        static_cast<double>(wire.request + wire.response + 2 * p.link.framing_bytes) * 8 / p.link.gbits_s;
    const double bus_ns = ((8 + 22) + (8 + 26) + (64 + 26) + 3 * p.pcie.link_layer_bytes) / p.pcie.gbytes_s;
    const double fetch_ns = p.pcie.read_ns + (64 + 22 + p.pcie.link_layer_bytes) / p.pcie.gbytes_s;
    const double request_ns = posting == Posting::doorbell ? p.cpu.doorbell_ns + p.pcie.mmio_ns + fetch_ns
                                                           : p.cpu.write_combine_ns + p.pcie.mmio_ns;
    const double expected = p.cpu.post_ns + request_ns + p.nic.pipeline_ns        // until the NIC has it
                            + 2 * (p.link.switch_ns + p.link.cable_ns) + wire_ns  // request and response
                            + p.nic.pipeline_ns + p.pcie.read_ns                  // fetching the data
                            + p.nic.pipeline_ns + p.pcie.write_ns                 // writing the completion
                            + p.cpu.poll_ns + p.cpu.completion_ns + bus_ns;
    EXPECT_NEAR(static_cast<double>(took), expected, 12)
        << "rounding of each stage to whole nanoseconds aside";
  }
}

coro::Task<void> write_one(TestCluster* cluster, NodeId from, NodeId to, std::uint32_t bytes, Nanos* done) {
  Worker& self = *cluster->clients[from];
  const Completion end = co_await self.write(cluster->remote[to], 0, cluster->at(from, 0), bytes);
  EXPECT_TRUE(end.ok());
  *done = self.now();
}

// Writes 64 KB to node 3 four times concurrently.
coro::Task<void> flood(TestCluster* cluster, Nanos* done) {
  coro::Scope scope(cluster->clients[1]->run_queue());
  for (int i = 0; i < 4; ++i) scope.spawn(write_one(cluster, 1, 3, 65536, done));
  co_await scope.join();
}

// While node 3 is flooded: writes 64 KB to it, and after that a word to node 2, to which no other node
// writes.
coro::Task<void> write_behind(TestCluster* cluster, Nanos* big, Nanos* small) {
  Worker& self = *cluster->clients[0];
  co_await self.sleep_until(self.now() + 20'000);
  coro::Scope scope(self.run_queue());
  scope.spawn(write_one(cluster, 0, 3, 65536, big));
  scope.spawn(write_one(cluster, 0, 2, 8, small));
  co_await scope.join();
}

struct Flooded {
  Nanos flood = 0, big = 0, small = 0;
  double paused = 0;
};
Flooded flooded(std::uint32_t port_buffer, std::uint32_t xon_offset = 0, double pause_delay = 0) {
  SimConfig config = small_config(4);
  config.hardware.link.port_buffer_bytes = port_buffer;
  config.hardware.link.xon_offset_bytes = xon_offset;
  config.hardware.link.pause_delay_ns = pause_delay;
  TestCluster cluster(config);
  Flooded out;
  cluster.fabric->start(*cluster.clients[1], flood(&cluster, &out.flood));
  cluster.fabric->start(*cluster.clients[0], write_behind(&cluster, &out.big, &out.small));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  out.paused = cluster.fabric->report().nodes[0].counters.at("link_held");
  return out;
}

TEST(SimStages, AFullPortOfTheSwitchHoldsItsSender) {
  const Flooded free = flooded(0), roomy = flooded(128 << 10), tight = flooded(16 << 10);
  EXPECT_EQ(free.paused, 0);
  EXPECT_EQ(roomy.paused, 0) << "64 KB fit into 128";
  EXPECT_EQ(roomy.small, free.small);
  EXPECT_GT(tight.paused, 0);
  // With enough buffer in the switch, the word leaves its node right after the large message. With a buffer
  // of 16 KB it leaves later: the large message waits some 30 us for the link to node 3, and holds its own
  // node's link until only 16 KB of it (13 us of link time) are in the switch.
  EXPECT_GT(tight.small, free.small + 10'000);
  EXPECT_LT(tight.small, tight.big);
  // The smaller switch buffer changes neither the order of the messages at node 3 nor the arrival of the last
  // one.
  EXPECT_EQ(tight.flood, free.flood);
  EXPECT_NEAR(static_cast<double>(tight.big), static_cast<double>(free.big), 10);
}

TEST(SimStages, APausedLinkGoesOnAtXonAndAfterTheDelay) {
  const Flooded plain = flooded(16 << 10);
  // Without XON, the word waits for a packet's room as well: the buffer is full until the large message has
  // left.
  const double packet = (1024 + 20) * 0.8;
  // The link stops 5 us late, with as much more in the switch. It goes on when this has left, and 5 us later.
  const Flooded late = flooded(16 << 10, 0, 5000);
  EXPECT_NEAR(static_cast<double>(late.small - plain.small), 5000 - packet, 10);
  EXPECT_NEAR(static_cast<double>(late.big), static_cast<double>(plain.big), 10);
  // With XON at 8 of 16 KB, the link stands still until 8 KB have left at 0.8 ns a byte. The output port
  // sends what is in the buffer meanwhile, and the large message ends as before.
  const Flooded half = flooded(16 << 10, 8 << 10);
  EXPECT_NEAR(static_cast<double>(half.small - plain.small), 8192 * 0.8 - packet, 10);
  EXPECT_NEAR(static_cast<double>(half.big), static_cast<double>(plain.big), 10);
  // With XON at an empty buffer, the link stands still until 16 KB have left, and for 2 us more, in which the
  // output port has nothing to send. What has come in 2 us too late leaves meanwhile.
  const Flooded empty = flooded(16 << 10, 16 << 10, 2000);
  EXPECT_NEAR(static_cast<double>(empty.small - plain.small), 16384 * 0.8 + 2000 - packet, 10);
  EXPECT_NEAR(static_cast<double>(empty.big - plain.big), 2000, 10);
  // Neither changes anything where everything fits.
  const Flooded roomy = flooded(128 << 10, 64 << 10, 2000), free = flooded(0);
  EXPECT_EQ(roomy.paused, 0);
  EXPECT_EQ(roomy.small, free.small);
}

TEST(SimStages, ACacheMissIsOnePcieReadEach) {
  TestCluster cluster(small_config());
  Nanos took = 0, warm = 0;
  cluster.fabric->start(*cluster.clients[0], read_again(&cluster, 0, 8, 1, &took));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  TestCluster again(small_config());
  again.fabric->start(*again.clients[0], read_again(&again, 0, 8, 2, &warm));
  ASSERT_EQ(again.fabric->run().value(), RunEnd::finished);
  // The first READ misses the NIC caches for a queue pair context and a page translation on each of the two
  // nodes; a NIC starts its two fetches one gap (read latency / outstanding fetches) apart.
  const HardwareProfile profile = small_config().hardware;
  const double gap = profile.pcie.read_ns / profile.nic.outstanding_fetches;
  EXPECT_NEAR(static_cast<double>(took - warm), 4 * profile.pcie.read_ns + gap, 8);
}

TEST(SimStages, ASaturatedLinkGivesItsRate) {
  Microbenchmark benchmark;
  benchmark.traffic.bytes = 16384;
  benchmark.peers = 4;
  benchmark.window = 2;
  benchmark.duration = 5'000'000;
  const SimConfig config = small_config();
  const Measured measured = measure(config.hardware, benchmark).value();
  const WireBytes wire = wire_bytes(Verb::read, Transport::rc, 16384, 1024, LinkFormat::roce_v1);
  const double framing = wire.response_packets * config.hardware.link.framing_bytes;
  const double payload_share = 16384.0 / (static_cast<double>(wire.response) + framing);
  EXPECT_NEAR(measured.gbits_s, 10 * payload_share, 0.15);
}

TEST(SimStages, TheAtomicUnitGivesItsRate) {
  Microbenchmark benchmark;
  benchmark.traffic.verb = Verb::faa;
  benchmark.window = 4;
  const HardwareProfile one_lock = small_config().hardware;
  EXPECT_NEAR(measure(one_lock, benchmark).value().mops, 1e3 / one_lock.nic.atomic_hold_ns, 0.05);
  benchmark.traffic.words = 4096;
  EXPECT_NEAR(measure(one_lock, benchmark).value().mops, 1e3 / one_lock.nic.atomic_hold_ns, 0.05);
  const HardwareProfile buckets = small_config(2, "connect-ib-2x56g").hardware;
  EXPECT_GT(measure(buckets, benchmark).value().mops, 8e3 / buckets.nic.atomic_hold_ns);
}

// Issues random READs, atomics and SENDs from every node.
coro::Task<void> mix(TestCluster* cluster, std::uint32_t worker, int rounds) {
  Worker& self = *cluster->clients[worker];
  for (int i = 0; i < rounds; ++i) {
    const auto peer = static_cast<NodeId>(self.rng().below(cluster->fabric->nodes()));
    const std::uint64_t offset = 8 * self.rng().below(1000);
    const LocalSlice local = cluster->at(self.node(), 65536 + 512ull * self.index());
    const auto bytes = static_cast<std::uint32_t>(8 + 8 * self.rng().below(60));
    if (self.rng().chance(0.3)) {
      const Completion done = co_await self.faa(cluster->remote[peer], offset, 1);
      EXPECT_TRUE(done.ok());
    } else {
      const Completion done = co_await self.read(cluster->remote[peer], offset, local, bytes);
      EXPECT_TRUE(done.ok());
    }
  }
}

SimReport run_mix(std::uint64_t seed, bool has_faults, int rounds = 200) {
  SimConfig config = small_config(4);
  config.seed = seed;
  if (has_faults) {
    Rng rng(seed);
    config.faults = swarm(rng);
    config.random_tie_order = true;
  }
  TestCluster cluster(config, 3);
  for (std::uint32_t i = 0; i < cluster.clients.size(); ++i) {
    cluster.fabric->start(*cluster.clients[i], mix(&cluster, i, rounds));
  }
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  return *cluster.fabric->report().sim;
}

coro::Task<void> compute_for(Worker* worker, Nanos span, Nanos* took) {
  const Nanos from = worker->now();
  co_await worker->compute(span);
  *took = worker->now() - from;
}

TEST(SimBackground, KeepOffTheServersCores) {
  constexpr Nanos span = 60'000'000;
  SimConfig config = small_config(1);
  config.hardware.cpu.cores = 2;
  config.hardware.cpu.sockets = 1;
  config.background_workers = 2;
  config.background_pin = BackgroundPin::clients;
  const auto fabric = make_sim(config).value();
  Worker* client = fabric->add_worker({0, Role::client, 0, 0, "client"}).value();
  Worker* server = fabric->add_worker({0, Role::server, 1, 1, "server"}).value();
  ASSERT_TRUE(fabric->exchange(1));
  Nanos client_took = 0, server_took = 0;
  fabric->start(*client, compute_for(client, span, &client_took));
  fabric->start(*server, compute_for(server, span, &server_took));
  ASSERT_EQ(fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(server_took, span);
  // the client shared its core with two background workers, which start within the first 24 ms
  EXPECT_GT(client_took, 2 * span);
}

TEST(SimDeterminism, TheSameSeedGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SimReport first = run_mix(seed, false), second = run_mix(seed, false);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.events, second.events);
    EXPECT_NE(first.trace_hash, run_mix(seed + 100, false).trace_hash);
  }
}

TEST(SimDeterminism, UnderFaultsAsWell) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(run_mix(seed, true, 60).trace_hash, run_mix(seed, true, 60).trace_hash);
  }
}

coro::Task<void> sleep_often(Worker* worker, int times) {
  for (int i = 0; i < times; ++i) co_await worker->sleep_until(worker->now() + 100);
}

// Runs 50 READs of one worker beside another worker that sleeps `sleeps` times and does nothing else.
SimReport run_reads(int sleeps, double more_pipeline_ns) {
  SimConfig config = small_config(3);
  config.hardware.nic.pipeline_ns += more_pipeline_ns;
  TestCluster cluster(config, 2);
  Nanos took = 0;
  cluster.fabric->start(*cluster.clients[0], read_again(&cluster, 0, 8, 50, &took));
  cluster.fabric->start(*cluster.clients[1], sleep_often(cluster.clients[1], sleeps));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  return *cluster.fabric->report().sim;
}

TEST(SimTraceHash, IsOfEffectsAndTheirInstantsNotOfEvents) {
  const SimReport plain = run_reads(0, 0), slept = run_reads(30, 0);
  EXPECT_GT(slept.events, plain.events + 30);
  EXPECT_EQ(slept.trace_hash, plain.trace_hash);
  // with a slower NIC each effect comes some nanoseconds later, which changes the hash
  EXPECT_NE(run_reads(0, 1).trace_hash, plain.trace_hash);
}

coro::Task<void> warm_then_count(TestCluster* cluster, std::uint32_t worker) {
  co_await mix(cluster, worker, 100);
  if (worker == 0) cluster->fabric->reset_counters();
  co_await mix(cluster, worker, 500);
}

TEST(SimMemory, NothingIsAllocatedForARequestAfterTheWarmUp) {
  TestCluster cluster(small_config(4), 3);
  for (std::uint32_t i = 0; i < cluster.clients.size(); ++i) {
    cluster.fabric->start(*cluster.clients[i], warm_then_count(&cluster, i));
  }
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(cluster.fabric->report().sim->request_allocations, 0u);
}

coro::Task<void> write_entry(Worker* self, Region* from, RemoteRegion to) {
  const LocalSlice source{from, 1000};
  const Completion done = co_await self->write(to, 3000, source, 1000);
  EXPECT_TRUE(done.ok());
}

TEST(SimMemory, OnlyKeptBytesAreStoredAndTheyArrive) {
  SimConfig config = small_config();
  auto fabric = make_sim(config).value();
  const Elision head_and_tail{1000, 16, 8};
  Region* from = fabric->register_region(0, {"from", 8000, true, true, true, head_and_tail}).value();
  Region* to = fabric->register_region(1, {"to", 8000, true, true, true, head_and_tail}).value();
  Worker* worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
  ASSERT_TRUE(fabric->exchange(1).has_value());
  for (int i = 0; i < 16; ++i) from->at(1000)[i] = std::byte(i + 1);
  for (int i = 0; i < 8; ++i) from->at(1992)[i] = std::byte(i + 100);
  fabric->start(*worker, write_entry(worker, from, fabric->lookup(1, "to").value()));
  ASSERT_EQ(fabric->run().value(), RunEnd::finished);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(to->at(3000)[i], std::byte(i + 1));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(to->at(3992)[i], std::byte(i + 100));
  EXPECT_EQ(*to->at(2000), std::byte(0));
}

struct Copied {
  Elision there;
  std::uint64_t from = 0, to = 0;
  std::uint32_t length = 0;
};
coro::Task<void> write_as(Worker* self, Region* from, RemoteRegion to, Copied copied) {
  const LocalSlice source{from, copied.from};
  const Completion done = co_await self->write(to, copied.to, source, copied.length);
  EXPECT_TRUE(done.ok());
}

// A WRITE between regions that store different bytes of their entries (Elision) copies the bytes that both
// regions store; other bytes of the target stay unchanged.
TEST(SimMemory, RegionsThatKeepOtherBytesGetThoseThatBothKeep) {
  const Elision here{1000, 16, 8};
  const auto keeps = [](const Elision& elision, std::uint64_t at) {
    const std::uint64_t within = elision.on() ? at % elision.entry_bytes : 0;
    return !elision.on() || within < elision.keep_head || within >= elision.entry_bytes - elision.keep_tail;
  };
  for (const Copied& copied : {Copied{{}, 1000, 3000, 1000}, Copied{{}, 1008, 3000, 200},
                               Copied{{}, 1994, 10, 1100}, Copied{{1000, 8, 40}, 1000, 3000, 1000},
                               Copied{{500, 32, 10}, 1985, 2, 2100}, Copied{here, 1000, 3004, 2000}}) {
    auto fabric = make_sim(small_config()).value();
    Region* from = fabric->register_region(0, {"from", 8000, true, true, true, here}).value();
    Region* to = fabric->register_region(1, {"to", 8000, true, true, true, copied.there}).value();
    Worker* worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
    ASSERT_TRUE(fabric->exchange(1).has_value());
    for (std::uint64_t at = 0; at < 8000; ++at) {
      if (keeps(here, at)) *from->at(at) = std::byte(1 + at % 100);
      if (keeps(copied.there, at)) *to->at(at) = std::byte(200);
    }
    fabric->start(*worker, write_as(worker, from, fabric->lookup(1, "to").value(), copied));
    ASSERT_EQ(fabric->run().value(), RunEnd::finished);
    for (std::uint64_t at = 0; at < 8000; ++at) {
      if (!keeps(copied.there, at)) continue;
      const std::uint64_t was = at - copied.to + copied.from;
      const bool has_arrived = at >= copied.to && at < copied.to + copied.length && keeps(here, was);
      ASSERT_EQ(*to->at(at), has_arrived ? std::byte(1 + was % 100) : std::byte(200))
          << at << " of " << copied.length << " bytes from " << copied.from << " to " << copied.to;
    }
  }
}

// The condition of a wait for request slots: whether a slot's polled word and the word before it have both
// been written, in either order.
bool has_both_words(void* context, std::uint32_t index, std::uint64_t word) {
  const auto* cluster = static_cast<TestCluster*>(context);
  std::uint64_t before = 0;
  std::memcpy(&before, cluster->memory[1]->at(64 * index + 48), 8);
  return word == 1 && before == 1;
}
coro::Task<void> await_slot(TestCluster* cluster, WatchAny* out) {
  const WatchSet slots{cluster->memory[1], 56, 64, 3, has_both_words, cluster};
  const WatchAny seen = co_await cluster->clients[1]->watch_any(slots, 0, 1'000'000);
  *out = seen;
}
coro::Task<void> write_last_word_first(TestCluster* cluster) {
  Worker& self = *cluster->clients[0];
  const LocalSlice one = cluster->at(0, 0);
  const std::uint64_t word = 1;
  std::memcpy(one.data(), &word, 8);
  const Completion last = co_await self.write(cluster->remote[1], 56, one, 8);
  co_await self.sleep_until(self.now() + 20'000);
  const Completion first = co_await self.write(cluster->remote[1], 48, one, 8);
  EXPECT_TRUE(last.ok() && first.ok());
}

TEST(SimWatches, AChangeAnywhereInASlotIsLookedAt) {
  TestCluster cluster(small_config());
  WatchAny seen{WatchOutcome::timed_out, 9};
  cluster.fabric->start(*cluster.clients[0], write_last_word_first(&cluster));
  cluster.fabric->start(*cluster.clients[1], await_slot(&cluster, &seen));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(seen.outcome, WatchOutcome::ready) << "the slot in front of the first word belongs to it";
  EXPECT_EQ(seen.index, 0u);
}

}  // namespace
}  // namespace loch::fabric::sim
