// Tests that scheduled failures of nodes and workers leave the others running.
#include "common/fabric/memory.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

using Kind = ScheduledFault::Kind;

struct Outcome {
  int ok = 0, failed = 0, reconnected = 0;
  Nanos longest = 0;
};

// READs the next node's memory until `until`, and reconnects after failures.
coro::Task<void> read_on(TestCluster* cluster, NodeId self, Nanos until, Outcome* outcome) {
  Worker& worker = *cluster->clients[self];
  const auto peer = static_cast<NodeId>((self + 1) % cluster->fabric->nodes());
  RemoteRegion region = cluster->remote[peer];
  while (worker.now() < until) {
    const LocalSlice to = cluster->at(self, 4096);
    const Nanos from = worker.now();
    const Completion done = co_await worker.read(region, 0, to, 64);
    outcome->longest = std::max(outcome->longest, worker.now() - from);
    if (done.ok()) {
      ++outcome->ok;
      continue;
    }
    ++outcome->failed;
    const Nanos deadline = worker.now() + 20'000'000;
    const bool connected = co_await worker.reconnect(peer, deadline);
    if (!connected) co_return;
    ++outcome->reconnected;
    region = cluster->fabric->lookup(peer, "memory").value();
  }
}

// READs with one worker until `until`, and records the longest READ.
coro::Task<void> read_alone(TestCluster* cluster, std::size_t client, Nanos until, Nanos* longest) {
  Worker& worker = *cluster->clients[client];
  const auto peer = static_cast<NodeId>((worker.node() + 1) % cluster->fabric->nodes());
  while (worker.now() < until) {
    const Nanos from = worker.now();
    const LocalSlice to = cluster->at(worker.node(), 4096 + 64 * client);
    const Completion done = co_await worker.read(cluster->remote[peer], 0, to, 64);
    EXPECT_TRUE(done.ok());
    *longest = std::max(*longest, worker.now() - from);
  }
}

SimConfig with_fault(ScheduledFault fault) {
  SimConfig config = small_config(3);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.faults.schedule.push_back(fault);
  return config;
}

void run_all(TestCluster* cluster, Nanos until, std::vector<Outcome>* outcomes) {
  outcomes->resize(3);
  for (NodeId node = 0; node < 3; ++node) {
    cluster->fabric->start(*cluster->clients[node], read_on(cluster, node, until, &(*outcomes)[node]));
  }
  ASSERT_EQ(cluster->fabric->run().value(), RunEnd::finished);
}

TEST(SimFailures, ACrashedNodeLosesItsMemoryAndComesBackWithFreshKeys) {
  TestCluster cluster(with_fault({Kind::crash, 1, 0, 1'000'000, 2'000'000}));
  store_word_release(cluster.memory[1]->at(128), 77);
  std::vector<Outcome> outcomes;
  run_all(&cluster, 10'000'000, &outcomes);
  EXPECT_GT(outcomes[0].ok, 100);
  EXPECT_EQ(outcomes[0].reconnected, 1);
  EXPECT_EQ(outcomes[2].failed, 0);
  EXPECT_EQ(load_word(cluster.memory[1]->at(128)), 0u);
  EXPECT_NE(cluster.fabric->lookup(1, "memory")->rkey, cluster.remote[1].rkey);
  EXPECT_TRUE(cluster.fabric->report().nodes[1].is_lost);
  EXPECT_FALSE(cluster.fabric->report().nodes[0].is_lost);
}

TEST(SimFailures, ANodeThatStaysDownIsReportedToItsPeers) {
  TestCluster cluster(with_fault({Kind::crash, 1, 0, 1'000'000, 0}));
  std::vector<Outcome> outcomes;
  run_all(&cluster, 5'000'000, &outcomes);
  EXPECT_EQ(outcomes[0].failed, 1);
  EXPECT_EQ(outcomes[0].reconnected, 0);
}

TEST(SimFailures, AShortCutIsBridgedByRetriesALongOneIsNot) {
  TestCluster short_cut(with_fault({Kind::cut, 1, 0, 1'000'000, 50'000}));
  std::vector<Outcome> outcomes;
  run_all(&short_cut, 3'000'000, &outcomes);
  EXPECT_EQ(outcomes[0].failed + outcomes[1].failed + outcomes[2].failed, 0);
  EXPECT_GE(outcomes[0].longest, 50'000);
  TestCluster long_cut(with_fault({Kind::cut, 1, 0, 1'000'000, 2'000'000}));
  std::vector<Outcome> after;
  run_all(&long_cut, 5'000'000, &after);
  EXPECT_EQ(after[0].failed, 1);
  EXPECT_EQ(after[0].reconnected, 1);
}

TEST(SimFailures, APausedNodesNicGoesOn) {
  TestCluster cluster(with_fault({Kind::pause, 1, 0, 1'000'000, 1'000'000}));
  std::vector<Outcome> outcomes;
  run_all(&cluster, 4'000'000, &outcomes);
  EXPECT_GE(outcomes[1].longest, 900'000);
  EXPECT_LT(outcomes[0].longest, 100'000);
}

TEST(SimFailures, AStalledNicHoldsUpItsPeersToo) {
  TestCluster cluster(with_fault({Kind::nic_stall, 1, 0, 1'000'000, 100'000}));
  std::vector<Outcome> outcomes;
  run_all(&cluster, 3'000'000, &outcomes);
  EXPECT_GE(outcomes[0].longest, 90'000);
  EXPECT_GE(outcomes[1].longest, 90'000);
  EXPECT_LT(outcomes[2].longest, 50'000);
}

coro::Task<void> add_ones(Worker* worker, RemoteRegion to, int count) {
  for (int i = 0; i < count; ++i) {
    const Completion done = co_await worker->faa(to, 0, 1);
    EXPECT_TRUE(done.ok());
  }
}

// Posts `count` FAAs on one word, four outstanding at a time on one connection.
coro::Task<void> add_side_by_side(Worker* worker, RemoteRegion to, int count) {
  coro::Scope scope(worker->run_queue());
  for (int i = 0; i < 4; ++i) scope.spawn(add_ones(worker, to, count / 4));
  co_await scope.join();
}

// Found by fuzzing the protocol pilaf (seed 1612520849000001000): while a retried request waited for a
// stalled NIC, the requests behind it were rechecked every nanosecond, which made five million events per
// simulated millisecond.
TEST(SimFailures, WhatWaitsBehindARetriedRequestAtAStalledNicCostsNoEvents) {
  SimConfig config = with_fault({Kind::nic_stall, 1, 0, 1'000'000, 5'000'000});
  config.faults.schedule.push_back({Kind::cut, 0, 0, 1'000'000, 10'000});
  TestCluster cluster(config);
  cluster.fabric->start(*cluster.clients[0], add_side_by_side(cluster.clients[0], cluster.remote[1], 4000));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  const FabricReport report = cluster.fabric->report();
  EXPECT_GT(report.nodes[0].counters.at("nic_retries"), 0);
  EXPECT_EQ(load_word(cluster.memory[1]->at(0)), 4000u);
  EXPECT_LT(report.sim->events, 100'000u);
}

coro::Task<void> add_all_the_time(Worker* worker, RemoteRegion to) {
  while (true) EXPECT_TRUE((co_await worker->faa(to, 0, 1)).ok());
}

coro::Task<void> add_while_able(Worker* worker, RemoteRegion to) {
  coro::Scope scope(worker->run_queue());
  for (int i = 0; i < 4; ++i) scope.spawn(add_all_the_time(worker, to));
  co_await scope.join();
}

// Found by fuzzing the protocol nessie (seed 30007053): the requester crashed while one of its requests
// waited for a retry. Its later requests, which had already arrived at the responder, were rechecked there
// every nanosecond for ever.
TEST(SimFailures, WhatWaitsBehindARetriedRequestOfACrashedNodeEndsWithIt) {
  for (Nanos at = 200'000; at < 300'000; at += 2'003) {
    SimConfig config = with_fault({Kind::crash, 0, 0, at, 0});
    config.faults.rc_loss = 0.2;
    TestCluster cluster(config);
    cluster.fabric->start(*cluster.clients[0], add_while_able(cluster.clients[0], cluster.remote[1]));
    Outcome outcome;
    cluster.fabric->start(*cluster.clients[1], read_on(&cluster, 1, 1'000'000, &outcome));
    ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    EXPECT_GT(load_word(cluster.memory[1]->at(0)), 10u);
    EXPECT_LT(cluster.fabric->report().sim->events, 50'000u) << "crashed at " << at;
  }
}

coro::Task<void> write_once(Worker* worker, LocalSlice from, RemoteRegion to) {
  const Completion done = co_await worker->write(to, 0, from, 64);
  EXPECT_TRUE(done.ok());
}

// Found by fuzzing the protocol nessie (seed 40026323): the last WRITE of a run had been acknowledged, but
// was not visible when the tables were audited after the run, and never became so.
TEST(SimFailures, WhatWasAcknowledgedIsVisibleWhenTheRunHasEnded) {
  SimConfig config = small_config(2);
  config.faults.late_write = 1;
  config.faults.late_write_span = 100'000;
  config.faults.torn_write = 0.5;
  for (config.seed = 1; config.seed <= 20; ++config.seed) {
    TestCluster cluster(config);
    const LocalSlice from = cluster.at(0, 4096);
    store_word_release(cluster.memory[0]->at(4096), 77);
    store_word_release(cluster.memory[0]->at(4096 + 56), 78);
    cluster.fabric->start(*cluster.clients[0], write_once(cluster.clients[0], from, cluster.remote[1]));
    ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    EXPECT_EQ(load_word(cluster.memory[1]->at(0)), 77u);
    EXPECT_EQ(load_word(cluster.memory[1]->at(56)), 78u);
  }
}

// Found by fuzzing the protocol nessie (seed 20014189): the loss of an earlier request on its connection
// delayed a CAS by a retry timer between its read and its write, and meanwhile another connection's CAS was
// executed.
TEST(SimFailures, AtomicsAreAtomicAmongEachOtherWhateverIsLost) {
  SimConfig config = small_config(4);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.faults.split_atomics = true;
  config.faults.split_span = 2'000;
  config.faults.schedule.push_back(
      {.kind = Kind::lossy, .node = 0, .at = 0, .span = 1'000'000'000, .chance = 0.1});
  TestCluster cluster(config);
  constexpr int each = 400;
  for (NodeId node = 1; node < 4; ++node)
    cluster.fabric->start(*cluster.clients[node],
                          add_side_by_side(cluster.clients[node], cluster.remote[0], each));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(load_word(cluster.memory[0]->at(0)), 3U * each);
}

// Found by fuzzing the protocol race (seed 9194 of 6994ffed): an atomic after the instant at which faults end
// was executed between the read and the write of one that had been split before, so that both swapped the
// word.
TEST(SimFailures, AtomicsAreAtomicAmongEachOtherWhenFaultsEnd) {
  constexpr int each = 20;
  for (Nanos heal_at = 5'000; heal_at < 45'000; heal_at += 1'000) {
    SimConfig config = small_config(4);
    config.faults.split_atomics = true;
    config.faults.split_span = 2'000;
    config.faults.heal_at = heal_at;
    TestCluster cluster(config);
    for (NodeId node = 1; node < 4; ++node)
      cluster.fabric->start(*cluster.clients[node],
                            add_side_by_side(cluster.clients[node], cluster.remote[0], each));
    EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    EXPECT_EQ(load_word(cluster.memory[0]->at(0)), 3U * each) << "faults end at " << heal_at;
  }
}

coro::Task<void> sleep_in_children(Worker* worker) {
  coro::Scope scope(worker->run_queue());
  const auto nap = [](Worker* self) -> coro::Task<void> { co_await self->sleep_until(1'000'000'000); };
  scope.spawn(nap(worker));
  scope.spawn(nap(worker));
  co_await scope.join();
}

TEST(SimFailures, AKilledWorkersCoroutinesAreFreed) {
  const std::uint64_t before = coro::FramePool::local().live();
  {
    TestCluster cluster(with_fault({Kind::kill, 0, 0, 1'000'000, 0}));
    Outcome outcome;
    cluster.fabric->start(*cluster.clients[0], sleep_in_children(cluster.clients[0]));
    cluster.fabric->start(*cluster.clients[1], read_on(&cluster, 1, 3'000'000, &outcome));
    ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    EXPECT_TRUE(cluster.fabric->report().nodes[0].is_lost);
    EXPECT_TRUE(cluster.fabric->fence(0).has_value());
  }
  EXPECT_EQ(coro::FramePool::local().live(), before);
}

coro::Task<void> wait_for_nothing(TestCluster* cluster) {
  const WatchWord never{cluster->memory[0], 0, ~0ull, 5, true, std::nullopt};
  const WatchOutcome outcome = co_await cluster->clients[0]->watch(never);
  (void)outcome;
}

TEST(SimFailures, StragglersAreWorkersFromAnIndexOn) {
  constexpr Nanos lag = 500'000, span = 20'000'000;
  SimConfig config = small_config(3);
  config.faults.stragglers = 1;
  config.faults.lag = lag;
  config.faults.first_straggler = 1;
  TestCluster cluster(config, 2);
  std::vector<Nanos> longest(cluster.clients.size());
  for (std::size_t i = 0; i < longest.size(); ++i) {
    cluster.fabric->start(*cluster.clients[i], read_alone(&cluster, i, span, &longest[i]));
  }
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  Nanos slowest = 0;
  for (std::size_t i = 0; i < longest.size(); ++i) {
    if (cluster.clients[i]->index() == 0) EXPECT_LT(longest[i], 20'000);
    EXPECT_LE(longest[i], lag + 20'000);
    slowest = std::max(slowest, longest[i]);
  }
  EXPECT_GT(slowest, 20'000);
}

coro::Task<void> compute_often(TestCluster* cluster, Nanos span, std::vector<Nanos>* took) {
  Worker* const worker = cluster->clients[0];
  for (int i = 0; i < 200; ++i) {
    const Nanos began = worker->now();
    co_await worker->compute(span);
    took->push_back(worker->now() - began);
  }
}

// Some computations take exactly the time that they ask for; the others are interrupted, and take longer by
// up to the longest interruption.
TEST(SimFailures, ComputationsAreInterrupted) {
  constexpr Nanos span = 1'000, longest = 50'000;
  SimConfig config = small_config(2);
  config.faults.interrupted = 0.3;
  config.faults.interrupted_span = longest;
  TestCluster cluster(config);
  std::vector<Nanos> took;
  cluster.fabric->start(*cluster.clients[0], compute_often(&cluster, span, &took));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  ASSERT_EQ(took.size(), 200U);
  const auto interrupted =
      std::ranges::count_if(took, [&](Nanos each) { return each > span + longest / 100; });
  EXPECT_GT(interrupted, 30);
  EXPECT_LT(interrupted, 90);
  EXPECT_GE(std::ranges::min(took), span);
  EXPECT_LE(std::ranges::max(took), span + longest + 1'000);
  EXPECT_GT(std::ranges::max(took), longest / 2);
}

TEST(SimFailures, WaitingForNothingIsADeadlock) {
  const std::uint64_t before = coro::FramePool::local().live();
  TestCluster cluster(small_config(1));
  cluster.fabric->start(*cluster.clients[0], wait_for_nothing(&cluster));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::deadlock);
  EXPECT_EQ(coro::FramePool::local().live(), before);
}

TEST(SimFailures, ClocksAreSkewedWithinTheirBound) {
  SimConfig config = small_config(8);
  config.faults.clock_skew = 10'000;
  TestCluster cluster(config);
  Nanos least = forever, most = -forever;
  for (Worker* worker : cluster.clients) {
    least = std::min(least, worker->node_clock() - worker->now());
    most = std::max(most, worker->node_clock() - worker->now());
  }
  EXPECT_LE(-10'000, least);
  EXPECT_LE(most, 10'000);
  EXPECT_GT(most - least, 1'000);
}

coro::Task<void> add_unheard(TestCluster* cluster, bool* is_over) {
  Worker& self = *cluster->clients[0];
  co_await self.sleep_until(10'000);
  const Completion done = co_await self.faa(cluster->remote[1], 0, 5);
  EXPECT_EQ(done.status, WcStatus::retry_exceeded);
  EXPECT_EQ(load_word(cluster->memory[1]->at(0)), 5u);
  *is_over = true;
}

// Requests of node 0 arrive at node 1 and are executed, but the responses are lost. In the other direction
// nothing is lost.
TEST(SimFailures, AOneWayCutLosesTheAnswersOfWhatWasExecuted) {
  SimConfig config = small_config(2);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.hardware.nic.retry_count = 1;
  config.faults.schedule.push_back({.kind = Kind::one_way, .node = 1, .at = 1, .span = 1'000'000, .peer = 0});
  TestCluster cluster(config);
  bool is_over = false;
  cluster.fabric->start(*cluster.clients[0], add_unheard(&cluster, &is_over));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_TRUE(is_over);
}

coro::Task<void> count_failures(TestCluster* cluster, Nanos until, Outcome* outcome) {
  Worker& worker = *cluster->clients[0];
  while (worker.now() < until) {
    const LocalSlice to = cluster->at(0, 4096);
    const Completion done = co_await worker.read(cluster->remote[1], 0, to, 64);
    ++(done.ok() ? outcome->ok : outcome->failed);
    if (done.ok()) continue;
    const bool connected = co_await worker.reconnect(1, worker.now() + 20'000'000);
    outcome->reconnected += connected ? 1 : 0;
  }
}

TEST(SimFailures, ABurstOfLossesFailsRequestsWhileItLasts) {
  SimConfig config = small_config(2);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.hardware.nic.retry_count = 1;
  config.faults.schedule.push_back(
      {.kind = Kind::lossy, .node = 1, .at = 1'000'000, .span = 2'000'000, .chance = 0.7});
  TestCluster cluster(config);
  Outcome outcome;
  cluster.fabric->start(*cluster.clients[0], count_failures(&cluster, 6'000'000, &outcome));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_GT(outcome.failed, 5);
  EXPECT_GT(outcome.ok, 500);
  EXPECT_EQ(outcome.failed, outcome.reconnected);
}

// Run by the new worker of a restarted node: sets *seen to 2 if the node's memory is zeroed and a READ from
// node 0 succeeds.
coro::Task<void> second_incarnation(TestCluster* cluster, Worker* self, std::uint64_t* seen) {
  *seen = load_word(cluster->memory[1]->at(128)) + 1;
  const LocalSlice to = cluster->at(1, 4096);
  const Completion done = co_await self->read(cluster->remote[0], 0, to, 64);
  EXPECT_TRUE(done.ok());
  *seen += done.ok() ? 1 : 0;
}

TEST(SimFailures, ANodeThatIsBackIsGivenWorkersAgain) {
  TestCluster cluster(with_fault({Kind::crash, 1, 0, 1'000'000, 500'000}));
  store_word_release(cluster.memory[1]->at(128), 77);
  std::uint64_t seen = 0;
  std::uint32_t told = 0;
  cluster.fabric->on_restart([&](NodeId node) {
    EXPECT_EQ(node, 1);
    ++told;
    const auto fresh = cluster.fabric->add_worker({1, Role::client, 0, -1, "client"});
    ASSERT_TRUE(fresh.has_value()) << fresh.error().message;
    EXPECT_NE(*fresh, cluster.clients[1]);
    cluster.fabric->start(**fresh, second_incarnation(&cluster, *fresh, &seen));
  });
  std::vector<Outcome> outcomes;
  run_all(&cluster, 5'000'000, &outcomes);
  EXPECT_EQ(told, 1u);
  EXPECT_EQ(seen, 2u);
  EXPECT_EQ(outcomes[0].reconnected, 1);
}

}  // namespace
}  // namespace loch::fabric::sim
