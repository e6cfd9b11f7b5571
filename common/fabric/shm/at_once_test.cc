// Tests what shm executes before it returns to the caller, and what it leaves to be posted.
#include <gtest/gtest.h>

#include <atomic>

#include "common/coro/scope.h"
#include "common/fabric/count/count.h"
#include "common/fabric/decorator.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

struct Pair {
  Pair() {
    shm::ShmConfig config;
    config.nodes = 2;
    fabric = count_requests(shm::make_shm(config).value(), {});
    for (NodeId node = 0; node < 2; ++node) {
      memory[node] = fabric->register_region(node, {"memory", 4096, true, true, false, {}}).value();
      worker[node] = fabric->add_worker({node, Role::client, 0, -1, "client"}).value();
    }
    EXPECT_TRUE(fabric->exchange(1'000'000'000).has_value());
    remote = fabric->lookup(1, "memory").value();
  }
  [[nodiscard]] WorkRequest request(Verb verb, OpStats* stats) const {
    return one_sided(verb, remote, 64, {memory[0], 128}, 8, stats);
  }
  std::unique_ptr<Fabric> fabric;
  Region* memory[2];
  Worker* worker[2];
  RemoteRegion remote;
  std::atomic<bool> is_listening = false;
};

// A sink that counts completions.
struct Counted : CompletionSink {
  Counted() {
    fn = [](CompletionSink* self, WorkRequest&) { ++static_cast<Counted*>(self)->done; };
  }
  int done = 0;
};

coro::Task<void> some_at_once(Pair* pair) {
  Worker& worker = *pair->worker[0];
  OpStats stats;
  store_word_release(pair->memory[1]->at(64), 7);
  EXPECT_TRUE(worker.execute_at_once(pair->request(Verb::read, &stats)));
  EXPECT_EQ(load_word(pair->memory[0]->at(128)), 7u);
  store_word_release(pair->memory[0]->at(128), 8);
  EXPECT_TRUE(worker.execute_at_once(pair->request(Verb::write, &stats)));
  EXPECT_EQ(load_word(pair->memory[1]->at(64)), 8u);
  EXPECT_EQ(stats.read, 1u);
  EXPECT_EQ(stats.write, 1u);
  // Atomics, messages and requests that would fail are left to be posted, and nothing of them is done or
  // counted.
  EXPECT_FALSE(worker.execute_at_once(pair->request(Verb::faa, &stats)));
  EXPECT_FALSE(worker.execute_at_once(pair->request(Verb::send, &stats)));
  WorkRequest foreign = pair->request(Verb::read, &stats);
  ++foreign.remote.rkey;
  EXPECT_FALSE(worker.execute_at_once(foreign));
  EXPECT_TRUE(worker.connected(1));
  EXPECT_EQ(stats.read, 1u);
  EXPECT_EQ(stats.faa + stats.send, 0u);
  // A request whose sink has still to be told holds up those behind it.
  Counted counted;
  WorkRequest posted = pair->request(Verb::write, nullptr);
  posted.sink = &counted;
  worker.post(&posted);
  EXPECT_FALSE(worker.execute_at_once(pair->request(Verb::read, nullptr)));
  while (counted.done == 0) co_await worker.run_queue().yield();
  EXPECT_TRUE(worker.execute_at_once(pair->request(Verb::read, nullptr)));
  // A failed connection executes nothing.
  const Completion refused = co_await worker.execute(foreign);
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(worker.execute_at_once(pair->request(Verb::read, nullptr)));
}

TEST(ShmAtOnce, ExecutesWhatWaitsForNothing) {
  Pair pair;
  pair.fabric->start(*pair.worker[0], some_at_once(&pair));
  ASSERT_TRUE(pair.fabric->run().has_value());
}

coro::Task<void> read_often(Pair* pair, std::uint32_t reads, bool* has_ended) {
  for (std::uint32_t i = 0; i < reads; ++i) {
    const Completion done = co_await pair->worker[0]->execute(pair->request(Verb::read, nullptr));
    EXPECT_TRUE(done.ok());
  }
  *has_ended = true;
}

// Counts the turns that another coroutine of the worker gets while `often` does `times` what has ended at
// once.
coro::Task<void> count_turns(Pair* pair, coro::Task<void> (*often)(Pair*, std::uint32_t, bool*),
                             std::uint32_t times, std::uint32_t* turns) {
  coro::Scope scope(pair->worker[0]->run_queue());
  bool has_ended = false;
  scope.spawn(often(pair, times, &has_ended));
  while (!has_ended) {
    co_await pair->worker[0]->run_queue().yield();
    ++*turns;
  }
  co_await scope.join();
}

// READs that have ended at once suspend their coroutine once in 17 times, so that others get their turn.
TEST(ShmAtOnce, OneAwaitedReadInSeventeenQueuesUp) {
  Pair pair;
  constexpr std::uint32_t reads = 1'700;
  std::uint32_t turns = 0;
  pair.fabric->start(*pair.worker[0], count_turns(&pair, &read_often, reads, &turns));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_GE(turns, reads / 17);
  EXPECT_LT(turns, reads / 8);
}

bool is_odd(void* /*context*/, std::uint32_t /*index*/, std::uint64_t word) { return word % 2 == 1; }

WatchSet two_words(const Pair& pair) {
  return {.region = pair.memory[0], .offset = 512, .stride = 8, .count = 2, .ready = &is_odd};
}

coro::Task<void> watch_often(Pair* pair, std::uint32_t waits, bool* has_ended) {
  for (std::uint32_t i = 0; i < waits; ++i) {
    const WatchAny any = co_await pair->worker[0]->watch_any(two_words(*pair), 1);
    EXPECT_EQ(any.outcome, WatchOutcome::ready);
    EXPECT_EQ(any.index, 1u);
  }
  *has_ended = true;
}

// A server whose next request is always there suspends its coroutine once in 17 requests.
TEST(WatchAtOnce, OneWaitInSeventeenQueuesUp) {
  Pair pair;
  constexpr std::uint32_t waits = 1'700;
  std::uint32_t turns = 0;
  store_word_release(pair.memory[0]->at(520), 1);
  pair.fabric->start(*pair.worker[0], count_turns(&pair, &watch_often, waits, &turns));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_GE(turns, waits / 17);
  EXPECT_LT(turns, waits / 8);
}

// Only the first word that is looked at ends a wait before it begins, and only one of the worker's own node.
TEST(WatchAtOnce, LooksAtTheFirstWordAlone) {
  Pair pair;
  WatchWait wait;
  wait.set = two_words(pair);
  EXPECT_FALSE(pair.worker[0]->watch_at_once(wait));
  store_word_release(pair.memory[0]->at(520), 3);
  EXPECT_FALSE(pair.worker[0]->watch_at_once(wait));
  wait.start = 1;
  EXPECT_TRUE(pair.worker[0]->watch_at_once(wait));
  EXPECT_EQ(wait.result.index, 1u);
  EXPECT_FALSE(pair.worker[1]->watch_at_once(wait));
  const std::uint64_t known[] = {0, 3};
  wait.set.known = known;
  EXPECT_FALSE(pair.worker[0]->watch_at_once(wait));
}

// A decorator sees every wait.
TEST(WatchAtOnce, NotThroughADecorator) {
  Pair pair;
  WrappedWorker wrapped(pair.worker[0]);
  store_word_release(pair.memory[0]->at(512), 1);
  WatchWait wait;
  wait.set = two_words(pair);
  EXPECT_FALSE(wrapped.watch_at_once(wait));
  EXPECT_TRUE(pair.worker[0]->watch_at_once(wait));
}

// Stores a word that another coroutine of the worker watches, and counts how often the worker resumes this
// coroutine until the other one has seen it.
coro::Task<void> await_word(Pair* pair, bool* has_seen) {
  const WatchWord word{.region = pair->memory[0], .offset = 256, .value = 1, .until_equal = true};
  const WatchOutcome seen = co_await pair->worker[0]->watch(word);
  EXPECT_EQ(seen, WatchOutcome::ready);
  *has_seen = true;
}

coro::Task<void> yield_until_seen(Pair* pair, std::uint32_t* rounds) {
  coro::Scope scope(pair->worker[0]->run_queue());
  bool has_seen = false;
  scope.spawn(await_word(pair, &has_seen));
  co_await pair->worker[0]->run_queue().yield();
  store_word_release(pair->memory[0]->at(256), 1);
  for (; !has_seen; ++*rounds) co_await pair->worker[0]->run_queue().yield();
  co_await scope.join();
}

// Coroutines that are always ready do not keep the worker from polling.
TEST(ShmRounds, EndAfterSixteenAtMost) {
  Pair pair;
  std::uint32_t rounds = 0;
  pair.fabric->start(*pair.worker[0], yield_until_seen(&pair, &rounds));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_LE(rounds, 17u);
}

constexpr std::uint32_t messages = 12;

coro::Task<void> send_all(Pair* pair) {
  Worker& worker = *pair->worker[0];
  for (std::uint32_t i = 0; i < messages; ++i) {
    WorkRequest message;
    message.verb = Verb::send;
    message.transport = Transport::ud;
    message.peer = 1;
    message.length = 8;
    message.local = {pair->memory[0], 0};
    const Completion done = co_await worker.execute(message);
    EXPECT_TRUE(done.ok());
  }
  store_word_release(pair->memory[0]->at(128), 1);
  const Completion told = co_await worker.write(pair->remote, 64, {pair->memory[0], 128}, 8);
  EXPECT_TRUE(told.ok());
}

coro::Task<void> count_rounds(Pair* pair, const bool* has_ended, std::uint32_t* rounds) {
  for (; !*has_ended; ++*rounds) co_await pair->worker[1]->run_queue().yield();
}

coro::Task<void> receive_all(Pair* pair, std::uint32_t* rounds) {
  Worker& worker = *pair->worker[1];
  for (std::uint32_t i = 0; i < messages; ++i)
    worker.post_recv(Transport::ud, {pair->memory[1], 512 + 64 * i}, 64, i);
  pair->is_listening = true;
  const WatchWord word{.region = pair->memory[1], .offset = 64, .value = 1, .until_equal = true};
  const WatchOutcome seen = co_await worker.watch(word);
  EXPECT_EQ(seen, WatchOutcome::ready);
  bool has_ended = false;
  coro::Scope scope(worker.run_queue());
  scope.spawn(count_rounds(pair, &has_ended, rounds));
  for (std::uint32_t i = 0; i < messages; ++i) {
    const Received message = co_await worker.receive(Transport::ud);
    EXPECT_EQ(message.outcome, Received::Outcome::message);
    EXPECT_EQ(message.user, i);
  }
  has_ended = true;
  co_await scope.join();
}

coro::Task<void> send_when_listening(Pair* pair) {
  while (!pair->is_listening) co_await pair->worker[0]->sleep_until(pair->worker[0]->now() + 10'000);
  co_await send_all(pair);
}

// A message that has arrived is received without a poll, which comes once in 16 rounds while others are
// ready.
TEST(ShmRounds, ReceiveWhatHasArrivedWithoutAPoll) {
  Pair pair;
  std::uint32_t rounds = 0;
  pair.fabric->start(*pair.worker[0], send_when_listening(&pair));
  pair.fabric->start(*pair.worker[1], receive_all(&pair, &rounds));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_LE(rounds, 3 * messages);
}

// A decorator sees every request: none passes it by because it is executed at once.
TEST(ShmAtOnce, NotThroughADecorator) {
  Pair pair;
  WrappedWorker wrapped(pair.worker[0]);
  EXPECT_FALSE(wrapped.execute_at_once(pair.request(Verb::read, nullptr)));
  EXPECT_TRUE(pair.worker[0]->execute_at_once(pair.request(Verb::read, nullptr)));
}

}  // namespace
}  // namespace loch::fabric
