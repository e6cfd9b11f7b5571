// Conformance tests of fabrics: waits for a word of memory to change (watches), timers, clocks, and the end
// of a run.
#include "common/fabric/memory.h"
#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

WatchWord word_equals(Cluster* cluster, NodeId node, std::uint64_t offset, std::uint64_t value) {
  return {cluster->memory[node], offset, ~0ull, value, true, std::nullopt};
}

coro::Task<void> relay(Cluster* cluster, NodeId self, NodeId peer, std::uint64_t rounds, bool leads) {
  Worker& worker = *cluster->clients[self];
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    if (!leads) {
      const WatchWord turn = word_equals(cluster, self, 64, round);
      const Nanos deadline = worker.now() + 20 * second;
      const WatchOutcome outcome = co_await worker.watch(turn, deadline);
      EXPECT_EQ(outcome, WatchOutcome::ready);
      if (outcome != WatchOutcome::ready) co_return;
    }
    cluster->set_word(self, 0, round);
    const LocalSlice from = cluster->at(self, 0);
    const Completion done = co_await worker.write(cluster->remote[peer], 64, from, 8);
    EXPECT_TRUE(done.ok());
    if (leads) {
      const WatchWord turn = word_equals(cluster, self, 64, round);
      const Nanos deadline = worker.now() + 20 * second;
      const WatchOutcome outcome = co_await worker.watch(turn, deadline);
      EXPECT_EQ(outcome, WatchOutcome::ready);
      if (outcome != WatchOutcome::ready) co_return;
    }
  }
}

TEST_P(FabricTest, AWatchSeesRemoteWrites) {
  Cluster cluster(GetParam());
  cluster.start(0, relay(&cluster, 0, 1, 300, true));
  cluster.start(1, relay(&cluster, 1, 0, 300, false));
  cluster.run();
}

coro::Task<void> watch_masked(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->set_word(0, 8, 0xAB00);
  WatchWord watch{cluster->memory[0], 8, 0xFF00, 0xAB00, true, std::nullopt};
  const WatchOutcome at_once = co_await worker.watch(watch);
  EXPECT_EQ(at_once, WatchOutcome::ready);
  watch.until_equal = false;
  const Nanos started = worker.now();
  const Nanos deadline = started + millisecond;
  const WatchOutcome late = co_await worker.watch(watch, deadline);
  EXPECT_EQ(late, WatchOutcome::timed_out);
  EXPECT_GE(worker.now() - started, millisecond);
  watch.value = 0xCD00;
  const WatchOutcome differs = co_await worker.watch(watch);
  EXPECT_EQ(differs, WatchOutcome::ready);
}

TEST_P(FabricTest, AWatchHasMaskSenseAndDeadline) {
  Cluster cluster(GetParam());
  cluster.start(0, watch_masked(&cluster));
  cluster.run();
}

coro::Task<void> watch_store(Cluster* cluster, bool* seen) {
  const WatchWord watch = word_equals(cluster, 0, 256, 9);
  const WatchOutcome outcome = co_await cluster->servers[0]->watch(watch);
  *seen = outcome == WatchOutcome::ready;
}

coro::Task<void> store_after(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const Nanos at = worker.now() + 50'000;
  co_await worker.spin_until(at);
  EXPECT_GE(worker.now(), at);
  worker.store_word(*cluster->memory[0], 256, 9);
  const Nanos later = worker.now() + 2 * millisecond;
  co_await worker.sleep_until(later);
}

TEST_P(FabricTest, AWatchSeesStoresOfItsOwnNode) {
  Cluster cluster(GetParam(), 1, true);
  bool seen = false;
  cluster.start_server(0, watch_store(&cluster, &seen));
  cluster.start(0, store_after(&cluster));
  cluster.run();
  EXPECT_TRUE(seen);
}

coro::Task<void> two_waiters(Cluster* cluster, std::uint64_t offset, int* order, int* place) {
  const WatchWord watch = word_equals(cluster, 0, offset, 1);
  const WatchOutcome outcome = co_await cluster->clients[0]->watch(watch);
  EXPECT_EQ(outcome, WatchOutcome::ready);
  *place = ++*order;
}

coro::Task<void> watch_alongside(Cluster* cluster, int* first, int* second) {
  Worker& worker = *cluster->clients[0];
  int order = 0;
  coro::Scope scope(worker.run_queue());
  scope.spawn(two_waiters(cluster, 0, &order, first));
  scope.spawn(two_waiters(cluster, 64, &order, second));
  const Nanos soon = worker.now() + 20'000;
  co_await worker.spin_until(soon);
  worker.store_word(*cluster->memory[0], 64, 1);
  const Nanos later = worker.now() + 20'000;
  co_await worker.spin_until(later);
  worker.store_word(*cluster->memory[0], 0, 1);
  co_await scope.join();
}

TEST_P(FabricTest, CoroutinesWatchAlongsideEachOther) {
  Cluster cluster(GetParam(), 1);
  int first = 0, second = 0;
  cluster.start(0, watch_alongside(&cluster, &first, &second));
  cluster.run();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
}

bool is_set(void*, std::uint32_t, std::uint64_t word) { return word != 0; }

coro::Task<void> watch_slots(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const WatchSet set{cluster->memory[0], 1024, 64, 16, is_set, nullptr};
  cluster->set_word(0, 1024 + 3 * 64, 1);
  cluster->set_word(0, 1024 + 9 * 64, 1);
  const WatchAny low = co_await worker.watch_any(set, 0);
  EXPECT_EQ(low.outcome, WatchOutcome::ready);
  EXPECT_EQ(low.index, 3u);
  const WatchAny high = co_await worker.watch_any(set, 4);
  EXPECT_EQ(high.index, 9u);
  const WatchAny around = co_await worker.watch_any(set, 10);
  EXPECT_EQ(around.index, 3u);
  cluster->set_word(0, 1024 + 3 * 64, 0);
  cluster->set_word(0, 1024 + 9 * 64, 0);
  const Nanos deadline = worker.now() + millisecond;
  const WatchAny none = co_await worker.watch_any(set, 5, deadline);
  EXPECT_EQ(none.outcome, WatchOutcome::timed_out);
}

TEST_P(FabricTest, WatchAnyGoesRoundFromItsStart) {
  Cluster cluster(GetParam(), 1);
  cluster.start(0, watch_slots(&cluster));
  cluster.run();
}

struct Slots {
  std::uint64_t served = 0;
  bool stopped = false;
};

// Serves requests that clients WRITE into polled slots, as protocols with server-side execution do.
coro::Task<void> serve_slots(Cluster* cluster, Slots* slots) {
  Worker& worker = *cluster->servers[0];
  const WatchSet set{cluster->memory[0], 8192, 64, 8, is_set, nullptr};
  std::uint32_t start = 0;
  for (;;) {
    const WatchAny any = co_await worker.watch_any(set, start);
    if (any.outcome == WatchOutcome::stopping) break;
    EXPECT_EQ(any.outcome, WatchOutcome::ready);
    const std::uint64_t offset = 8192 + any.index * 64;
    const std::uint64_t word = cluster->word(0, offset);
    worker.store_word(*cluster->memory[0], offset, 0);
    cluster->set_word(0, 16384 + any.index * 64, word);
    const NodeId client = static_cast<NodeId>(any.index);
    const LocalSlice answer = cluster->at(0, 16384 + any.index * 64);
    const Completion done = co_await worker.write(cluster->remote[client], 512, answer, 8);
    EXPECT_TRUE(done.ok());
    ++slots->served;
    start = any.index + 1;
  }
  slots->stopped = worker.stopping();
}

coro::Task<void> call_slots(Cluster* cluster, NodeId self, std::uint64_t calls) {
  Worker& worker = *cluster->clients[self];
  for (std::uint64_t call = 1; call <= calls; ++call) {
    cluster->set_word(self, 0, call);
    WorkRequest request =
        one_sided(Verb::write, cluster->remote[0], 8192 + self * 64u, cluster->at(self, 0), 8, nullptr);
    worker.post_detached(request);
    WatchWord answer = word_equals(cluster, self, 512, call);
    answer.peer = NodeId{0};
    const Nanos deadline = worker.now() + 20 * second;
    const WatchOutcome outcome = co_await worker.watch(answer, deadline);
    EXPECT_EQ(outcome, WatchOutcome::ready);
    if (outcome != WatchOutcome::ready) co_return;
  }
}

TEST_P(FabricTest, AServerOfSlotsAnswersAndStops) {
  Cluster cluster(GetParam(), 4, true);
  Slots slots;
  cluster.start_server(0, serve_slots(&cluster, &slots));
  for (NodeId node = 1; node < 4; ++node) cluster.start(node, call_slots(&cluster, node, 100));
  cluster.run();
  EXPECT_EQ(slots.served, 300u);
  EXPECT_TRUE(slots.stopped);
}

coro::Task<void> sleeper(Worker* worker, Nanos at, std::vector<int>* order, int id) {
  co_await worker->sleep_until(at);
  EXPECT_GE(worker->now(), at);
  order->push_back(id);
}

coro::Task<void> sleep_alongside(Worker* worker, std::vector<int>* order) {
  const Nanos base = worker->now();
  coro::Scope scope(worker->run_queue());
  scope.spawn(sleeper(worker, base + 900'000, order, 3));
  scope.spawn(sleeper(worker, base + 300'000, order, 1));
  scope.spawn(sleeper(worker, base + 600'000, order, 2));
  scope.spawn(sleeper(worker, base - 5, order, 0));
  co_await scope.join();
  co_await worker->compute(100);
  EXPECT_GE(worker->now(), base + 900'000);
}

TEST_P(FabricTest, TimersFireInOrderAndNeverEarly) {
  Cluster cluster(GetParam(), 1);
  std::vector<int> order;
  cluster.start(0, sleep_alongside(cluster.clients[0], &order));
  cluster.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

coro::Task<void> watch_for_ever(Cluster* cluster, WatchOutcome* outcome) {
  const WatchWord never = word_equals(cluster, 1, 0, 12345);
  const WatchOutcome ended = co_await cluster->servers[1]->watch(never);
  *outcome = ended;
}

coro::Task<void> interrupt_soon(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const Nanos at = worker.now() + millisecond;
  co_await worker.sleep_until(at);
  cluster->fabric->interrupt();
  const WatchWord never = word_equals(cluster, 0, 0, 12345);
  const WatchOutcome ended = co_await worker.watch(never);
  EXPECT_EQ(ended, WatchOutcome::stopping);
  EXPECT_TRUE(worker.stopping());
}

TEST_P(FabricTest, AnInterruptEndsEveryWatch) {
  Cluster cluster(GetParam(), 2, true);
  WatchOutcome outcome = WatchOutcome::ready;
  cluster.start_server(1, watch_for_ever(&cluster, &outcome));
  cluster.start(0, interrupt_soon(&cluster));
  cluster.run(RunEnd::interrupted);
  EXPECT_EQ(outcome, WatchOutcome::stopping);
}

// A receive whose deadline has passed at its start returns at once, even if no other event happens.
coro::Task<void> receive_too_late(Cluster* cluster, int* ended) {
  Worker& worker = *cluster->clients[0];
  const Nanos at = worker.now() + millisecond;
  co_await worker.sleep_until(at);
  for (const Nanos deadline : {worker.now(), worker.now() - 1}) {
    const Received got = co_await worker.receive(Transport::rc, deadline);
    *ended += got.outcome == Received::Outcome::timed_out ? 1 : 0;
  }
  // Posting receives takes CPU time, after which the deadline `now` has passed; the receive still returns at
  // once.
  for (std::uint64_t i = 0; i < 8; ++i) worker.post_recv(Transport::ud, cluster->at(0, i * 128), 128, i);
  const Received after = co_await worker.receive(Transport::rc, worker.now());
  *ended += after.outcome == Received::Outcome::timed_out ? 1 : 0;
}

TEST_P(FabricTest, AReceiveThatBeginsTooLateEndsAtOnce) {
  Cluster cluster(GetParam());
  int ended = 0;
  cluster.start(0, receive_too_late(&cluster, &ended));
  cluster.run();
  EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace loch::fabric
