// Tests what many threads, queue pairs and outstanding requests of a node cost: shared doorbell registers,
// caches of work requests, hardware threads; and that the counts of outstanding requests return to 0.
#include <gmock/gmock.h>

#include "common/coro/scope.h"
#include "common/fabric/sim/doorbells.h"
#include "common/fabric/sim/microbenchmark.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

using testing::HasSubstr;
constexpr const char* card = "connectx6-200g-ib";

// ---- Doorbell registers ---------------------------------------------------------------------------

// Timing in which ringing a shared doorbell register takes a thread 30 ns if it had the register last, 150 ns
// if another one had it and it is free, else 200 ns times the number of threads at it.
Timing linear_doorbells() {
  HardwareProfile p = load_hardware(card).value();
  p.nic.crowded.doorbell_again_ns = 30;
  p.nic.crowded.doorbell_take_ns = 150;
  p.nic.crowded.doorbell_pass_ns = 200;
  p.nic.crowded.doorbell_exponent = 1;
  return Timing(p);
}

TEST(Doorbells, ThreadsRingOneAfterAnother) {
  const Timing timing = linear_doorbells();
  Doorbells bells(0, 2);
  const int a = 0, b = 0, c = 0;
  EXPECT_EQ(bells.ring(timing, 0, &a, 1000), 1150);
  EXPECT_EQ(bells.ring(timing, 0, &b, 1000), 1150 + 2 * 200);  // two threads at the register: 200 ns each
  EXPECT_EQ(bells.ring(timing, 0, &c, 1100), 1550 + 3 * 200);
  // three threads (b, c and a itself) are at the register: a's first ring ended at 1150
  EXPECT_EQ(bells.ring(timing, 0, &a, 1150), 2150 + 3 * 200);
  EXPECT_EQ(bells.ring(timing, 1, &a, 1000), 1150) << "another register";
}

TEST(Doorbells, AFreeRegisterIsQuickForTheThreadThatHadItLast) {
  const Timing timing = linear_doorbells();
  Doorbells bells(0, 1);
  const int a = 0, b = 0;
  EXPECT_EQ(bells.ring(timing, 0, &a, 1000), 1150);
  EXPECT_EQ(bells.ring(timing, 0, &a, 1300), 1330);
  EXPECT_EQ(bells.ring(timing, 0, &b, 5000), 5150);
  EXPECT_EQ(bells.ring(timing, 0, &a, 9000), 9150);
}

TEST(Doorbells, OnlyAPrivateRegisterHasNoLock) {
  const Timing timing = linear_doorbells();
  Doorbells bells(1, 1), own = Doorbells::one_for_each_thread();
  const int a = 0, b = 0;
  EXPECT_EQ(bells.ring(timing, Doorbells::unlocked, &a, 1000), 1000);
  // threads that ring their own registers at once do not wait for each other, the first time or later
  for (const Nanos at : {1000, 2000}) {
    EXPECT_EQ(own.ring(timing, own.assign(), &a, at), at + 30);
    EXPECT_EQ(own.ring(timing, own.assign(), &b, at), at + 30);
  }
}

TEST(Doorbells, QueuePairsGetThemInTurn) {
  Doorbells bells(2, 3);
  for (const std::uint32_t expected :
       {std::uint32_t{Doorbells::unlocked}, std::uint32_t{Doorbells::unlocked}, 0u, 1u, 2u, 0u})
    EXPECT_EQ(bells.assign(), expected);
  Doorbells none, own = Doorbells::one_for_each_thread();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(none.assign(), Doorbells::unlocked);
    EXPECT_EQ(own.assign(), Doorbells::one_thread);
  }
}

double rate(const HardwareProfile& profile, Verb verb, std::uint32_t threads, std::uint32_t depth,
            DoorbellSharing doorbells) {
  Microbenchmark b;
  b.traffic.verb = verb;
  b.is_outbound = b.in_rounds = true;
  b.peers = 1;
  b.workers = threads;
  b.window = depth;
  b.doorbells = doorbells;
  b.warm_up = 100'000;
  b.duration = 150'000;
  return measure(profile, b).value().mops;
}

TEST(CrowdedNode, ThreadsLoseByRegistersThatTheyShare) {
  const HardwareProfile profile = load_hardware(card).value();
  const double shared = rate(profile, Verb::read, 64, 8, DoorbellSharing::shared),
               own = rate(profile, Verb::read, 64, 8, DoorbellSharing::own);
  EXPECT_LT(shared, 0.5 * own);
  EXPECT_NEAR(rate(profile, Verb::read, 8, 8, DoorbellSharing::shared) /
                  rate(profile, Verb::read, 8, 8, DoorbellSharing::own),
              1, 0.1)
      << "no thread shares its register";
}

TEST(CrowdedNode, OneThreadLosesByTheLockOfItsOwnRegister) {
  HardwareProfile profile = load_hardware(card).value();
  // SMART's Figures 3a, 3b and 13a by one thread: 6 to 7 % more requests by the driver's default. With 16
  // outstanding it is 11 % here: a thread that does little else than to post pays the whole lock.
  for (const auto& [verb, depth] : {std::pair{Verb::read, 8u}, {Verb::write, 8u}, {Verb::read, 16u}}) {
    const double lead = rate(profile, verb, 1, depth, DoorbellSharing::shared) /
                        rate(profile, verb, 1, depth, DoorbellSharing::own);
    EXPECT_GT(lead, 1.03) << name(verb) << " " << depth;
    EXPECT_LT(lead, depth == 16 ? 1.12 : 1.09) << name(verb) << " " << depth;
  }
  // with 8 threads, of which 4 have a register without a lock by default, half as much
  const double of_eight = rate(profile, Verb::read, 8, 8, DoorbellSharing::shared) /
                          rate(profile, Verb::read, 8, 8, DoorbellSharing::own);
  EXPECT_GT(of_eight, 1.01);
  EXPECT_LT(of_eight, 1.045);
  profile.nic.crowded.doorbell_again_ns = 0;
  EXPECT_EQ(rate(profile, Verb::read, 1, 8, DoorbellSharing::own),
            rate(profile, Verb::read, 1, 8, DoorbellSharing::shared));
}

TEST(CrowdedNode, AWorkerWithoutARegisterIsRefused) {
  SimConfig config = small_config(1, card);
  config.doorbells = DoorbellSharing::own;
  config.hardware.nic.crowded.own_doorbells = 3;
  const auto fabric = make_sim(config);
  ASSERT_TRUE((*fabric)->add_worker({0, Role::client, 2, -1, "client"}).has_value());
  const auto refused = (*fabric)->add_worker({0, Role::client, 3, -1, "client"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("doorbell"), HasSubstr("has 3")));
}

// ---- Caches of work requests -----------------------------------------------------------------------

TEST(CrowdedNode, ManyOutstandingRequestsLowerTheRate) {
  HardwareProfile profile = load_hardware(card).value();
  for (const Verb verb : {Verb::read, Verb::write}) {
    const double few = rate(profile, verb, 96, 8, DoorbellSharing::own),
                 many = rate(profile, verb, 96, 32, DoorbellSharing::own);
    EXPECT_LT(many, 0.8 * few) << name(verb);
  }
  profile.nic.crowded.posted_read_ns = profile.nic.crowded.posted_write_ns = 0;
  profile.nic.crowded.answer_miss_ns = 0;
  for (const Verb verb : {Verb::read, Verb::write}) {
    const double few = rate(profile, verb, 96, 8, DoorbellSharing::own),
                 many = rate(profile, verb, 96, 32, DoorbellSharing::own);
    EXPECT_GT(many, 0.97 * few) << name(verb);
  }
}

TEST(CrowdedNode, AnswersOfReadsHaveACacheOfTheirOwn) {
  HardwareProfile profile = load_hardware(card).value();
  const double reads = rate(profile, Verb::read, 96, 32, DoorbellSharing::own),
               writes = rate(profile, Verb::write, 96, 32, DoorbellSharing::own);
  profile.nic.crowded.answer_miss_ns = 60;
  EXPECT_LT(rate(profile, Verb::read, 96, 32, DoorbellSharing::own), 0.8 * reads);
  EXPECT_EQ(rate(profile, Verb::write, 96, 32, DoorbellSharing::own), writes);
}

// ---- Latencies ------------------------------------------------------------------------------------

// The latencies of READs that a worker posts at once, in the order of posting. A READ before them brings the
// pages and queue pair contexts into the NICs' caches.
std::vector<Nanos> latencies(const HardwareProfile& profile, std::uint32_t reads) {
  SimConfig config = small_config(2, card);
  config.hardware = profile;
  TestCluster cluster(config);
  std::vector<Nanos> took(reads);
  const auto read = [](TestCluster* all, Nanos* span) -> coro::Task<void> {
    Worker& worker = *all->clients[0];
    const Nanos from = worker.now();
    const Completion done = co_await worker.read(all->remote[1], 0, all->at(0, 64), 8);
    EXPECT_TRUE(done.ok());
    *span = worker.now() - from;
  };
  const auto all = [&read](TestCluster* of, std::vector<Nanos>* spans) -> coro::Task<void> {
    Nanos first = 0;
    co_await read(of, &first);
    coro::Scope scope(of->clients[0]->run_queue());
    for (Nanos& span : *spans) scope.spawn(read(of, &span));
    co_await scope.join();
  };
  cluster.fabric->start(*cluster.clients[0], all(&cluster, &took));
  EXPECT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  return took;
}

TEST(CrowdedNode, OnlyAnIdleQueuePairTakesARequestByMmio) {
  HardwareProfile profile = load_hardware(card).value();
  profile.nic.crowded.busy_fetch_ns = 0;
  const std::vector<Nanos> before = latencies(profile, 2);
  profile.nic.crowded.busy_fetch_ns = 700;
  const std::vector<Nanos> after = latencies(profile, 2);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NEAR(static_cast<double>(after[1] - before[1]), 700, 60);
}

TEST(CrowdedNode, EachQueuePairInUseAddsToALatency) {
  HardwareProfile profile = load_hardware(card).value();
  profile.nic.crowded.queue_pair_latency_ns = 0;
  const Nanos before = latencies(profile, 1)[0];
  profile.nic.crowded.queue_pair_latency_ns = 100;
  // 100 ns for the one queue pair in use, three times: request and answer go through the requester's NIC, and
  // the request through the responder's
  EXPECT_EQ(latencies(profile, 1)[0], before + 3 * 100);
}

// ---- The count of outstanding requests returns to 0 -------------------------------------------------

double counter(const TestCluster& cluster, NodeId node, const char* name) {
  return cluster.fabric->report().nodes[node].counters.at(name);
}

// Posts 40 READs and WRITEs at once, again and again until `until`, and reconnects after failures.
coro::Task<void> post_on(TestCluster* cluster, Worker* worker, NodeId peer, Nanos until) {
  const auto one = [](TestCluster* of, Worker* by, NodeId to, bool is_read) -> coro::Task<void> {
    const RemoteRegion region = of->fabric->lookup(to, "memory").value();
    const LocalSlice local = of->at(by->node(), 4096);
    // the completion is ignored: the test lets many requests fail
    if (is_read)
      static_cast<void>(co_await by->read(region, 0, local, 64));
    else
      static_cast<void>(co_await by->write(region, 128, local, 64));
  };
  while (worker->now() < until) {
    coro::Scope scope(worker->run_queue());
    for (int i = 0; i < 40; ++i) scope.spawn(one(cluster, worker, peer, i % 2 == 0));
    co_await scope.join();
    if (worker->connected(peer)) continue;
    const Nanos deadline = worker->now() + 20'000'000;
    const bool is_back = co_await worker->reconnect(peer, deadline);
    if (!is_back) co_return;
  }
}

SimConfig failing(ScheduledFault fault) {
  SimConfig config = small_config(3, card);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.faults.schedule.push_back(fault);
  return config;
}

// All three nodes post to each other, and the fault of `config` strikes; afterwards no request may be counted
// as posted and unanswered.
void expect_all_counted_down(const SimConfig& config) {
  TestCluster cluster(config);
  for (Worker* worker : cluster.clients) {
    const auto peer = static_cast<NodeId>((worker->node() + 1) % 3);
    cluster.fabric->start(*worker, post_on(&cluster, worker, peer, 4'000'000));
  }
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  for (NodeId node = 0; node < 3; ++node) EXPECT_EQ(counter(cluster, node, "nic_posted"), 0) << node;
}

using Kind = ScheduledFault::Kind;

TEST(Posted, IsNoneAfterARun) { expect_all_counted_down(small_config(3, card)); }
TEST(Posted, IsNoneAfterACrashAndARestart) {
  expect_all_counted_down(failing({Kind::crash, 1, 0, 1'000'000, 1'000'000}));
}
TEST(Posted, IsNoneAfterACrashForGood) {
  expect_all_counted_down(failing({Kind::crash, 1, 0, 1'000'000, 0}));
}
TEST(Posted, IsNoneAfterAKill) { expect_all_counted_down(failing({Kind::kill, 1, 0, 1'000'000, 0})); }
TEST(Posted, IsNoneAfterACutThatOutlastsTheRetries) {
  expect_all_counted_down(failing({Kind::cut, 1, 0, 1'000'000, 1'000'000}));
}
TEST(Posted, IsNoneAfterManyWeakBehaviours) {
  SimConfig config = small_config(3, card);
  config.hardware.nic.retry_timeout_ns = 20'000;
  config.faults.rc_loss = 0.02;
  config.faults.late_write = 0.2;
  config.faults.late_write_span = 3000;
  expect_all_counted_down(config);
}

TEST(Posted, IsNoneAfterAFenceWhileRequestsAreOnTheirWay) {
  // More READs are posted than the queue pair may have on the wire (4): the others wait in the send queue
  // without a scheduled event that would end them.
  SimConfig config = failing({Kind::kill, 0, 0, 1'000'000, 0});
  config.hardware.nic.max_rd_atomic = 4;
  TestCluster cluster(config);
  double posted = -1, before = -1, after = -1, queue_pairs = -1;
  const auto fence = [&](Worker* worker) -> coro::Task<void> {
    co_await worker->spin_until(1'000'001);
    posted = counter(cluster, 0, "nic_posted");
    before = counter(cluster, 1, "nic_queue_pairs");
    EXPECT_TRUE(cluster.fabric->fence(0).has_value());
    after = counter(cluster, 0, "nic_posted");
    queue_pairs = counter(cluster, 1, "nic_queue_pairs");
    co_await worker->spin_until(1'500'000);
  };
  cluster.fabric->start(*cluster.clients[0], post_on(&cluster, cluster.clients[0], 1, 4'000'000));
  cluster.fabric->start(*cluster.clients[1], fence(cluster.clients[1]));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_GT(posted, 4);
  EXPECT_EQ(after, 0);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(queue_pairs, 0) << "a fenced queue pair is not in use";
  EXPECT_EQ(counter(cluster, 0, "nic_posted"), 0);
}

TEST(Posted, DatagramsAndUnreliableWritesAreCountedDownWhenTheyHaveLeft) {
  TestCluster cluster(small_config(2, card));
  const auto post = [](TestCluster* all) -> coro::Task<void> {
    Worker& worker = *all->clients[0];
    for (int i = 0; i < 20; ++i) {
      WorkRequest wr;
      wr.verb = i % 2 == 0 ? Verb::write : Verb::send;
      wr.transport = i % 2 == 0 ? Transport::uc : Transport::ud;
      wr.peer = 1;
      wr.remote = all->remote[1];
      wr.local = all->at(0, 64);
      wr.length = 32;
      const Completion done = co_await worker.execute(wr);
      EXPECT_TRUE(done.ok());
    }
  };
  cluster.fabric->start(*cluster.clients[0], post(&cluster));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(counter(cluster, 0, "nic_posted"), 0);
}

// ---- Hardware threads -----------------------------------------------------------------------------

// The time in ns that the slowest of `threads` workers of one node, each pinned to a core of its own, takes
// for a computation of 100 us.
Nanos slowest(const HardwareProfile& profile, std::uint32_t threads) {
  SimConfig config = small_config(1, card);
  config.hardware = profile;
  const std::unique_ptr<Fabric> fabric = make_sim(config).value();
  std::vector<Worker*> workers;
  for (std::uint32_t i = 0; i < threads; ++i) {
    const auto core = static_cast<int>(profile.cpu.cores - 1 - i);
    workers.push_back(
        fabric->add_worker({0, Role::client, static_cast<std::uint16_t>(i), core, "c"}).value());
  }
  EXPECT_TRUE(fabric->exchange(1).has_value());
  Nanos longest = 0;
  const auto compute = [&longest](Worker* worker) -> coro::Task<void> {
    co_await worker->spin_until(10'000);
    const Nanos from = worker->now();
    co_await worker->compute(100'000);
    longest = std::max(longest, worker->now() - from);
    co_await worker->spin_until(500'000);
  };
  for (Worker* worker : workers) fabric->start(*worker, compute(worker));
  EXPECT_EQ(fabric->run().value(), RunEnd::finished);
  return longest;
}

TEST(HardwareThreads, SlowEachOtherByTheProfile) {
  HardwareProfile profile = load_hardware(card).value();
  profile.cpu.shared_growth = 0.1;
  profile.cpu.sibling_growth = 0.5;
  EXPECT_EQ(slowest(profile, 48), 110'000);
  EXPECT_EQ(slowest(profile, 72), 135'000);
  EXPECT_EQ(slowest(profile, 96), 160'000);
}

TEST(HardwareThreads, AreUpTo128AndRunAtOnce) {
  HardwareProfile profile = load_hardware(card).value();
  profile.cpu.cores = most_cores;
  profile.cpu.shared_growth = profile.cpu.sibling_growth = 0;
  EXPECT_EQ(slowest(profile, most_cores), 100'000);  // two threads on one core would take twice as long
}

TEST(HardwareThreads, TheKernelSpreadsThreadsOverAllOfThem) {
  SimConfig config = small_config(1, card);
  config.hardware.cpu.shared_growth = config.hardware.cpu.sibling_growth = 0;
  config.hardware.cpu.cores = most_cores;
  config.background_workers = most_cores;
  TestCluster cluster(config);
  const auto spin = [](Worker* worker) -> coro::Task<void> { co_await worker->spin_until(400'000'000); };
  cluster.fabric->start(*cluster.clients[0], spin(cluster.clients[0]));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  // 128 background threads and a worker, on 128 cores, started within one period of 24 ms
  EXPECT_GT(cluster.fabric->report().nodes[0].cpu_busy, 0.95);
}

}  // namespace
}  // namespace loch::fabric::sim
