// Tests what atomics cost a responder's NIC: where their words are, how many are under way at once, and what
// waits behind them; and what a missing context or translation costs the messages behind.
#include <algorithm>
#include <cstring>

#include "common/fabric/sim/microbenchmark.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

constexpr NodeId server = 0;
constexpr Nanos hold_ns = 1000;

// A profile in which only atomics take long: 1 us each, under one lock.
HardwareProfile slow_atomics(std::uint32_t places) {
  HardwareProfile profile = small_config(2, "connectx3-56g-ib").hardware;
  profile.nic.atomic_buckets = 1;
  profile.nic.atomic_hold_ns = hold_ns;
  profile.nic.atomic_hold_memory_ns = 0;
  profile.nic.atomic_places = places;
  profile.nic.posting = Posting::any;  // atomics and READs take equally long to the NIC
  profile.nic.context_stall_ns = 0;
  profile.nic.queue_pair_entries = 0;
  profile.nic.translation_entries = 0;
  return profile;
}

// Nodes of which node 0 serves, with memory of `bytes` bytes, and the others have a client each.
struct Served {
  explicit Served(const HardwareProfile& hardware, std::uint32_t nodes = 3, std::uint64_t bytes = 1 << 20) {
    SimConfig config = small_config(nodes);
    config.hardware = hardware;
    fabric = make_sim(config).value();
    for (NodeId node = 0; node < nodes; ++node) {
      memory.push_back(
          fabric->register_region(node, {"memory", node == server ? bytes : 4096, true, true, true, {}})
              .value());
      clients.push_back(fabric->add_worker({node, Role::client, 0, -1, "client"}).value());
    }
    LOCH_CHECK(fabric->exchange(1).has_value(), "no exchange");
    for (NodeId node = 0; node < nodes; ++node) remote.push_back(fabric->lookup(node, "memory").value());
  }
  void run() { EXPECT_EQ(fabric->run().value(), RunEnd::finished); }
  [[nodiscard]] double counter(const char* key) const {
    return fabric->report().nodes[server].counters.at(key);
  }

  std::unique_ptr<Fabric> fabric;
  std::vector<Region*> memory;
  std::vector<Worker*> clients;
  std::vector<RemoteRegion> remote;
};

// What a client posts one by one, each on a queue pair of its own, and when each has ended.
struct Posted {
  Verb verb = Verb::read;
  Nanos at = 0;
  std::uint64_t offset = 0;
  std::uint8_t lane = 0;
  NodeId peer = server;
  Nanos took = 0;
};

coro::Task<void> post_one(Served* served, Worker* self, Posted* posted) {
  co_await self->spin_until(posted->at);
  WorkRequest request;
  request.verb = posted->verb;
  request.peer = posted->peer;
  request.lane = posted->lane;
  request.remote = served->remote[posted->peer];
  request.remote_offset = posted->offset;
  request.length = 8;
  request.operand = 1;
  if (!is_atomic(posted->verb)) request.local = {served->memory[self->node()], 8u * posted->lane};
  const Nanos from = self->now();
  const Completion done = co_await self->execute(request);
  EXPECT_TRUE(done.ok());
  posted->took = self->now() - from;
}

coro::Task<void> post_all(Served* served, Worker* self, std::vector<Posted>* all) {
  coro::Scope scope(self->run_queue());
  for (Posted& posted : *all) scope.spawn(post_one(served, self, &posted));
  co_await scope.join();
}

// The time that a READ of client 2 takes, alone or posted 200 ns after `atomics` of client 1.
Nanos read_behind(const HardwareProfile& hardware, int atomics, double* held = nullptr) {
  Served served(hardware);
  std::vector<Posted> first, second = {{Verb::read, 20'200, 64, 0}};
  for (int i = 0; i < atomics; ++i)
    first.push_back({Verb::faa, 20'000, static_cast<std::uint64_t>(8 * i), static_cast<std::uint8_t>(i)});
  served.fabric->start(*served.clients[1], post_all(&served, served.clients[1], &first));
  served.fabric->start(*served.clients[2], post_all(&served, served.clients[2], &second));
  served.run();
  if (held != nullptr) *held = served.counter("nic_held_by_atomics");
  return second[0].took;
}

TEST(SimAtomics, AnAtomicThatFindsNoPlaceHoldsUpWhatArrivesBehindIt) {
  const Nanos alone = read_behind(slow_atomics(1), 0);
  double held = 0;
  EXPECT_NEAR(static_cast<double>(read_behind(slow_atomics(1), 1, &held)), static_cast<double>(alone), 60)
      << "one atomic has a place, and READs pass it";
  EXPECT_EQ(held, 0);
  // The second atomic waits for the first one's place, and the READ waits for it.
  const Nanos behind_two = read_behind(slow_atomics(1), 2, &held);
  EXPECT_GT(behind_two, alone + hold_ns / 2);
  EXPECT_LT(behind_two, alone + hold_ns);
  EXPECT_GT(held, 0);
  // The third atomic holds up what is behind it until the second one has ended.
  EXPECT_NEAR(static_cast<double>(read_behind(slow_atomics(1), 3)), static_cast<double>(behind_two + hold_ns),
              60);
}

TEST(SimAtomics, PlacesAreAsManyAsTheProfileSays) {
  const auto alone = static_cast<double>(read_behind(slow_atomics(2), 0));
  EXPECT_NEAR(static_cast<double>(read_behind(slow_atomics(2), 2)), alone, 60);
  EXPECT_GT(static_cast<double>(read_behind(slow_atomics(2), 3)), alone + hold_ns / 2);
  EXPECT_NEAR(static_cast<double>(read_behind(slow_atomics(3), 3)), alone, 60);
  double held = 1;
  Served unlimited(slow_atomics(0));
  EXPECT_NEAR(static_cast<double>(read_behind(slow_atomics(16), 8, &held)), alone, 120);
  EXPECT_EQ(held, 0);
}

// The answer to a READ of the server's own arrives behind the atomics as well.
TEST(SimAtomics, AnswersWaitBehindAnAtomicToo) {
  const auto own_read = [](int atomics) {
    Served served(slow_atomics(1));
    std::vector<Posted> first, own = {{Verb::read, 19'700, 64, 0, 2}};
    for (int i = 0; i < atomics; ++i) first.push_back({Verb::faa, 20'000, 8, static_cast<std::uint8_t>(i)});
    served.fabric->start(*served.clients[1], post_all(&served, served.clients[1], &first));
    served.fabric->start(*served.clients[0], post_all(&served, served.clients[0], &own));
    served.run();
    return own[0].took;
  };
  const Nanos alone = own_read(0);
  EXPECT_GT(own_read(2), alone + hold_ns / 4);
  EXPECT_LT(own_read(1), alone + 60);
}

// With locks to spare, the places bound the rate.
TEST(SimAtomics, PlacesBoundTheRate) {
  HardwareProfile profile = slow_atomics(4);
  profile.nic.atomic_buckets = 4096;
  Microbenchmark benchmark;
  benchmark.traffic.verb = Verb::faa;
  benchmark.traffic.words = 4096;
  benchmark.window = 4;
  EXPECT_NEAR(measure(profile, benchmark).value().mops, 4e3 / hold_ns, 0.1);
  profile.nic.atomic_places = 0;
  EXPECT_GT(measure(profile, benchmark).value().mops, 12e3 / hold_ns);
}

// A READ on the queue pair of an atomic is executed after it, whatever is free, and although its work request
// may be at the NIC while the atomic's is still being fetched.
TEST(SimAtomics, AReadBehindAnAtomicOfItsQueuePairWaits) {
  for (const Posting posting : {Posting::libmlx4, Posting::any}) {
    for (const std::uint32_t places : {0u, 1u, 8u}) {
      HardwareProfile profile = slow_atomics(places);
      profile.nic.posting = posting;
      Served served(profile);
      // the word itself tells: completions of a queue pair come in order whatever was executed first
      std::vector<Posted> all = {{Verb::faa, 20'000, 64, 0}, {Verb::read, 20'100, 64, 0}};
      served.fabric->start(*served.clients[1], post_all(&served, served.clients[1], &all));
      served.run();
      EXPECT_GT(all[1].took + 200, all[0].took) << places;
      std::uint64_t read = 0;
      std::memcpy(&read, served.memory[1]->at(0), sizeof read);
      EXPECT_EQ(read, 1u) << places;
    }
  }
}

// The rate of atomics by where their words are.
double rate(const HardwareProfile& profile, std::uint64_t region_bytes) {
  Microbenchmark benchmark;
  benchmark.traffic.verb = Verb::faa;
  benchmark.traffic.words = 64;
  benchmark.window = 2;
  benchmark.region_bytes = region_bytes;
  return measure(profile, benchmark).value().mops;
}

TEST(SimAtomics, AnAtomicBeyondTheCacheIsHeldForLonger) {
  const HardwareProfile profile = small_config(2, "connectx3-56g-ib").hardware;
  EXPECT_NEAR(rate(profile, 0), 2.7, 0.05);
  EXPECT_NEAR(rate(profile, profile.cpu.last_level_cache_bytes), 2.7, 0.05);
  EXPECT_NEAR(rate(profile, profile.cpu.last_level_cache_bytes + 4096), 1.8, 0.03);
  HardwareProfile unknown = profile;
  unknown.cpu.last_level_cache_bytes = 0;
  EXPECT_NEAR(rate(unknown, std::uint64_t{1} << 30), 2.7, 0.05);
}

// An atomic's answer leaves through the unit that READs' answers leave through, where there is one: 8 READs
// and 8 atomics that arrive at once take the unit one after the other.
TEST(SimAtomics, AnswersToAtomicsTakeTheTransmittingUnit) {
  const auto all_ended = [](bool shared, int reading) {
    HardwareProfile profile = slow_atomics(0);
    profile.nic.atomic_buckets = 4096;
    profile.nic.respond_atomic_ns = profile.nic.respond_read_ns = 200;
    profile.nic.response_ns = 10;
    profile.nic.is_transmit_shared = shared;
    Served served(profile);
    std::vector<Posted> atomics, reads;
    for (std::uint8_t i = 0; i < 8; ++i) atomics.push_back({Verb::faa, 20'000, 8u * i, i});
    for (std::uint8_t i = 0; i < reading; ++i) reads.push_back({Verb::read, 20'000, 512, i});
    served.fabric->start(*served.clients[1], post_all(&served, served.clients[1], &atomics));
    served.fabric->start(*served.clients[2], post_all(&served, served.clients[2], &reads));
    served.run();
    return std::max(served.clients[1]->now(), served.clients[2]->now());
  };
  for (const bool shared : {false, true})
    EXPECT_NEAR(static_cast<double>(all_ended(shared, 8) - all_ended(shared, 0)), 8 * 200, 250) << shared;
}

// The WRITEs of a client over `lanes` queue pairs to pages of the server: the time from the first to the last
// completion.
Nanos writes_over(const HardwareProfile& profile, std::uint8_t lanes, std::uint64_t stride) {
  Served served(profile, 2, std::uint64_t{64} << 20);
  std::vector<Posted> all;
  for (std::uint8_t i = 0; i < lanes; ++i) all.push_back({Verb::write, 20'000, i * stride, i});
  served.fabric->start(*served.clients[1], post_all(&served, served.clients[1], &all));
  served.run();
  return served.clients[1]->now() - 20'000;
}

TEST(SimAtomics, WhatIsMissingStopsWhatArrives) {
  constexpr std::uint64_t pages_apart = 4 << 20;
  HardwareProfile profile = slow_atomics(0);
  profile.nic.outstanding_fetches = 1024;
  profile.nic.queue_pair_entries = 4096;  // each context misses once
  // The last of 8 WRITEs waits for the stalls of the 7 before it, less the time by which it is posted later.
  const auto expect_stalls = [&](Nanos more, const char* what) {
    EXPECT_GT(more, 6 * 500) << what;
    EXPECT_LE(more, 7 * 500) << what;
  };
  const Nanos contexts = writes_over(profile, 8, 0);
  profile.nic.receive_stall_ns = 500;
  expect_stalls(writes_over(profile, 8, 0) - contexts, "contexts");
  profile.nic.queue_pair_entries = 0;
  profile.nic.translation_entries = 4096;
  const Nanos one_page = writes_over(profile, 8, 0), pages = writes_over(profile, 8, pages_apart);
  profile.nic.receive_stall_ns = 0;
  expect_stalls(pages - writes_over(profile, 8, pages_apart), "translations");
  EXPECT_LT(one_page - writes_over(profile, 8, 0), 550) << "the page's translation is missing once";
}

}  // namespace
}  // namespace loch::fabric::sim
