// Tests a simulation by several threads (SimConfig::threads): the number of threads changes nothing, runs end
// as they do with one thread, and what concerns two nodes at one instant is refused.
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "common/coro/scope.h"
#include "tests/support/one_core.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

constexpr std::uint32_t thread_counts[] = {2, 3, 5, 8};

struct Seen {
  RunEnd end = RunEnd::deadlock;
  std::uint64_t hash = 0, events = 0, wire_bytes = 0;
  double virtual_s = 0, held = 0;
  bool operator==(const Seen&) const = default;
};

Seen seen_of(Fabric& fabric, RunEnd end) {
  const FabricReport report = fabric.report();
  Seen seen{.end = end,
            .hash = report.sim->trace_hash,
            .events = report.sim->events,
            .virtual_s = report.sim->virtual_s};
  for (const NodeReport& node : report.nodes) {
    seen.wire_bytes += node.tx_wire_bytes;
    seen.held += node.counters.at("link_held");
  }
  return seen;
}

// Requests of a worker to random nodes, and now and then one to node 0 at an instant at which all workers of
// the cluster post theirs: their messages meet at node 0, where events of one instant have many senders.
coro::Task<void> ask(TestCluster* cluster, std::uint32_t worker, int rounds) {
  constexpr Nanos appointment = 10'000;
  Worker& self = *cluster->clients[worker];
  const std::uint64_t own = 65536 + 16384ull * self.index();
  for (int i = 0; i < rounds; ++i) {
    auto peer = static_cast<NodeId>(self.rng().below(cluster->fabric->nodes()));
    const std::uint64_t offset = 8 * self.rng().below(1000);
    const auto bytes = static_cast<std::uint32_t>(8 + 8 * self.rng().below(250));
    if (i % 4 == 3) {
      peer = 0;
      co_await self.sleep_until((self.now() / appointment + 1) * appointment);
    }
    Completion done;
    if (self.rng().chance(0.3)) {
      done = co_await self.faa(cluster->remote[peer], offset, 1);
    } else if (self.rng().chance(0.5)) {
      done = co_await self.write(cluster->remote[peer], own, cluster->at(self.node(), own), bytes);
    } else {
      done = co_await self.read(cluster->remote[peer], 0, cluster->at(self.node(), own), bytes);
    }
    EXPECT_TRUE(done.ok());
    if (worker == 0 && i == rounds / 2) cluster->fabric->reset_counters();
  }
}

SimConfig divided(std::uint32_t nodes, std::uint32_t threads, std::uint64_t seed = 1) {
  SimConfig config = small_config(nodes);
  config.threads = threads;
  config.seed = seed;
  return config;
}

Seen run_asking(std::uint32_t threads, std::uint64_t seed) {
  SimConfig config = divided(11, threads, seed);
  config.hardware.link.port_buffer_bytes = 2048;  // so small that links are paused
  TestCluster cluster(config, 2);
  for (std::uint32_t i = 0; i < cluster.clients.size(); ++i)
    cluster.fabric->start(*cluster.clients[i], ask(&cluster, i, 8));
  const auto end = cluster.fabric->run();
  EXPECT_TRUE(end) << (end ? "" : end.error().message);
  return seen_of(*cluster.fabric, end.value_or(RunEnd::deadlock));
}

TEST(SimThreads, TheirNumberChangesNothing) {
  double held = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const Seen alone = run_asking(1, seed);
    EXPECT_EQ(alone.end, RunEnd::finished);
    EXPECT_NE(alone.hash, run_asking(1, seed + 100).hash);
    held += alone.held;
    for (const std::uint32_t threads : thread_counts) {
      if (seed > 4 && threads != thread_counts[seed % std::size(thread_counts)]) continue;
      // parts that are run in turn by one thread, and with a few seeds by as many as there are
      std::optional<support::OneCore> one_core;
      if (seed > 2) one_core.emplace();
      const Seen several = run_asking(threads, seed);
      EXPECT_TRUE(several == alone) << threads << " threads, seed " << seed << ": " << several.events
                                    << " events in " << several.virtual_s
                                    << " s; one thread: " << alone.events << " in " << alone.virtual_s;
    }
  }
  EXPECT_GT(held, 0) << "no link was paused";
}

coro::Task<void> read_often(TestCluster* cluster, std::uint32_t worker, int rounds) {
  Worker& self = *cluster->clients[worker];
  for (int i = 0; i < rounds; ++i) {
    const Completion done = co_await self.read(cluster->remote[1], 0, cluster->at(self.node(), 65536), 64);
    EXPECT_TRUE(done.ok());
  }
}

// Where no two events of different nodes meet and no link is paused, the run has the hash of the run without
// threads.
TEST(SimThreads, ALoneWorkerDoesWhatItDoesWithoutThreads) {
  const auto hash = [](std::uint32_t threads) {
    TestCluster cluster(divided(3, threads));
    cluster.fabric->start(*cluster.clients[0], read_often(&cluster, 0, 50));
    EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
    return cluster.fabric->report().sim->trace_hash;
  };
  const std::uint64_t without = hash(0);
  EXPECT_EQ(hash(1), without);
  EXPECT_EQ(hash(2), without);
}

coro::Task<void> write_word(TestCluster* cluster, std::uint32_t worker, NodeId peer) {
  Worker& self = *cluster->clients[worker];
  co_await self.sleep_until(self.now() + 10'000);
  const LocalSlice from = cluster->at(self.node(), 65536);
  const std::uint64_t word = 7;
  std::memcpy(from.data(), &word, 8);
  const Completion done = co_await self.write(cluster->remote[peer], 8, from, 8);
  EXPECT_TRUE(done.ok());
}

coro::Task<void> await_words(TestCluster* cluster, Worker* self, WatchOutcome* first, WatchOutcome* second) {
  const Region* const region = cluster->memory[self->node()];
  *first = co_await self->watch({.region = region, .offset = 8, .value = 7});
  *second = co_await self->watch({.region = region, .offset = 16, .value = 7});
}

// A server of one part is woken by a WRITE from another part, and told to stop when the last client has
// ended.
TEST(SimThreads, ServersStopWhenClientsHaveEnded) {
  TestCluster cluster(divided(2, 2));
  Worker* const server = cluster.fabric->add_worker({1, Role::server, 1, -1, "server"}).value();
  ASSERT_TRUE(cluster.fabric->exchange(1));
  WatchOutcome first = WatchOutcome::timed_out, second = WatchOutcome::timed_out;
  cluster.fabric->start(*server, await_words(&cluster, server, &first, &second));
  cluster.fabric->start(*cluster.clients[0], write_word(&cluster, 0, 1));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(first, WatchOutcome::ready);
  EXPECT_EQ(second, WatchOutcome::stopping);
}

coro::Task<void> wait_for_ever(TestCluster* cluster, std::uint32_t worker) {
  Worker& self = *cluster->clients[worker];
  const WatchOutcome outcome =
      co_await self.watch({.region = cluster->memory[self.node()], .offset = 8, .value = 7});
  ADD_FAILURE() << "the wait ended with outcome " << static_cast<int>(outcome);
}

TEST(SimThreads, AWaitForNothingIsADeadlock) {
  TestCluster cluster(divided(3, 2));
  cluster.fabric->start(*cluster.clients[1], wait_for_ever(&cluster, 1));
  cluster.fabric->start(*cluster.clients[0], read_often(&cluster, 0, 5));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::deadlock);
}

coro::Task<void> read_until_stopped(TestCluster* cluster, std::uint32_t worker,
                                    std::atomic<bool>* has_begun) {
  Worker& self = *cluster->clients[worker];
  while (!self.stopping()) {
    const Completion done = co_await self.read(cluster->remote[1], 0, cluster->at(self.node(), 65536), 64);
    EXPECT_TRUE(done.ok());
    *has_begun = true;
  }
}

TEST(SimThreads, AnInterruptEndsAllParts) {
  TestCluster cluster(divided(3, 3));
  std::atomic<bool> has_begun{false};
  for (std::uint32_t i = 0; i < cluster.clients.size(); ++i)
    cluster.fabric->start(*cluster.clients[i], read_until_stopped(&cluster, i, &has_begun));
  std::thread interrupter([&] {
    while (!has_begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cluster.fabric->interrupt();
  });
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::interrupted);
  interrupter.join();
}

coro::Task<void> ask_then_count(TestCluster* cluster, std::uint32_t worker) {
  co_await ask(cluster, worker, 100);
  if (worker == 0) cluster->fabric->reset_counters();
  co_await ask(cluster, worker, 300);
}

TEST(SimThreads, NothingIsAllocatedForARequestAfterTheWarmUp) {
  const support::OneCore one_core;
  TestCluster cluster(divided(4, 2), 3);
  for (std::uint32_t i = 0; i < cluster.clients.size(); ++i)
    cluster.fabric->start(*cluster.clients[i], ask_then_count(&cluster, i));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(cluster.fabric->report().sim->request_allocations, 0u);
}

coro::Task<void> send_one(TestCluster* cluster) {
  Worker& self = *cluster->clients[0];
  WorkRequest request;
  request.verb = Verb::send;
  request.peer = 1;
  request.local = cluster->at(0, 0);
  request.length = 8;
  const Completion done = co_await self.execute(request);
  EXPECT_FALSE(done.ok());
}

coro::Task<void> read_beyond(TestCluster* cluster) {
  Worker& self = *cluster->clients[0];
  const Completion done = co_await self.read(cluster->remote[1], 1 << 20, cluster->at(0, 0), 8);
  EXPECT_FALSE(done.ok());
}

std::string refusal_of(std::uint32_t threads, coro::Task<void> (*main)(TestCluster*)) {
  TestCluster cluster(divided(2, threads));
  cluster.fabric->start(*cluster.clients[0], main(&cluster));
  const auto end = cluster.fabric->run();
  return end ? "" : end.error().message;
}

// Failures whose effects both ends would know at one instant end the run with an error, with one thread too.
TEST(SimThreads, FailuresOfRequestsAreRefused) {
  EXPECT_EQ(refusal_of(0, read_beyond), "");
  for (const std::uint32_t threads : {1U, 2U}) {
    EXPECT_NE(refusal_of(threads, send_one).find("node 1 has no RECV for a SEND"), std::string::npos);
    EXPECT_NE(refusal_of(threads, read_beyond).find("a request of node 0 failed"), std::string::npos);
  }
}

TEST(SimThreads, WhatThreadsCannotDoIsRefused) {
  const auto is_refused = [](void (*change)(SimConfig*)) {
    SimConfig config = divided(2, 2);
    EXPECT_TRUE(make_sim(config));
    change(&config);
    return !make_sim(config);
  };
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->faults.rc_loss = 0.1; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->random_tie_order = true; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->deadline = 1'000'000; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->finish = 1'000'000; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->most_events = 1; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->hardware = small_config(2, "connectx6-200g-ib").hardware; }));
  EXPECT_TRUE(is_refused([](SimConfig* c) { c->hardware.link.switch_ns = c->hardware.link.cable_ns = 0; }));
}

}  // namespace
}  // namespace loch::fabric::sim
