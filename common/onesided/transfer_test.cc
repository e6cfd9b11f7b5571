// Tests READs that are awaited by polling a watermark (a bit of their last word), on a fabric that executes
// READs while they are posted.
#include "common/onesided/transfer.h"

#include <gtest/gtest.h>

#include "common/coro/scope.h"
#include "common/fabric/decorator.h"
#include "common/fabric/shm/shm.h"

namespace loch::onesided {
namespace {

constexpr std::uint64_t mark = std::uint64_t{1} << 63;

struct Pair {
  Pair() {
    fabric::shm::ShmConfig config;
    config.nodes = 2;
    fabric = fabric::shm::make_shm(config).value();
    for (fabric::NodeId node = 0; node < 2; ++node) {
      memory[node] = fabric->register_region(node, {"memory", 4096, true, true, true, {}}).value();
      worker[node] = fabric->add_worker({node, fabric::Role::client, 0, -1, "client"}).value();
    }
    EXPECT_TRUE(fabric->exchange(1'000'000'000).has_value());
    remote = fabric->lookup(1, "memory").value();
  }
  std::unique_ptr<fabric::Fabric> fabric;
  fabric::Region* memory[2];
  fabric::Worker* worker[2];
  fabric::RemoteRegion remote;
};

// Makes `count` READs of the first word of node 1's memory into the reader's memory at byte 8 * `place`;
// counts in *right those that returned the right word.
coro::Task<void> read_many(Pair* pair, std::uint64_t place, std::uint32_t count, std::uint32_t* right) {
  fabric::Worker& worker = *pair->worker[0];
  const std::uint64_t at = 8 * place;
  for (std::uint32_t i = 0; i < count; ++i) {
    const fabric::WorkRequest request =
        fabric::one_sided(fabric::Verb::read, pair->remote, 0, {pair->memory[0], at}, 8, nullptr);
    const Landing landing{
        .region = pair->memory[0], .word_at = at, .mark = mark, .until = worker.now() + 1'000'000'000};
    const Ended ended = co_await Transfer(worker, request, [&landing] { return std::optional(landing); });
    if (ended.ok() && fabric::load_word(pair->memory[0]->at(at)) == (mark | 5)) ++*right;
  }
}

// Yields again and again, and counts how often, until the two readers have made `done` READs in all.
coro::Task<void> count_turns(Pair* pair, const std::uint32_t* one, const std::uint32_t* other,
                             std::uint32_t done, std::uint32_t* turns) {
  while (*one + *other < done) {
    ++*turns;
    co_await pair->worker[0]->run_queue().yield();
  }
}

coro::Task<void> all_together(Pair* pair, std::uint32_t each, std::uint32_t* one, std::uint32_t* other,
                              std::uint32_t* turns) {
  coro::Scope scope(pair->worker[0]->run_queue());
  scope.spawn(read_many(pair, 1, each, one));
  scope.spawn(read_many(pair, 2, each, other));
  scope.spawn(count_turns(pair, one, other, 2 * each, turns));
  co_await scope.join();
}

// A READ whose data has arrived when it is posted does not suspend its coroutine. After 16 such
// READs in a row, another coroutine gets its turn nevertheless.
TEST(Transfer, LandedReadsLeaveTurnsToOthers) {
  constexpr std::uint32_t each = 1'000;
  Pair pair;
  fabric::store_word_release(pair.memory[1]->at(0), mark | 5);
  std::uint32_t one = 0, other = 0, turns = 0;
  pair.fabric->start(*pair.worker[0], all_together(&pair, each, &one, &other, &turns));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_EQ(one, each);
  EXPECT_EQ(other, each);
  // Between two turns of count_turns() each reader makes at most 17 READs.
  EXPECT_GE(turns, each / 17);
  EXPECT_LT(turns, each);
}

// READs a word that lacks the watermark bit.
coro::Task<void> read_unmarked(Pair* pair, fabric::Worker* worker, Nanos patience, Ended* out) {
  const fabric::WorkRequest request =
      fabric::one_sided(fabric::Verb::read, pair->remote, 8, {pair->memory[0], 8}, 8, nullptr);
  const Landing landing{
      .region = pair->memory[0], .word_at = 8, .mark = mark, .until = worker->now() + patience};
  const Ended seen = co_await Transfer(*worker, request, [&landing] { return std::optional(landing); });
  *out = seen;
}

// Behind a decorator no READ is executed at once. The word that is READ lacks the watermark bit, so the READ
// is never seen to arrive: polling ends at its deadline.
TEST(Transfer, AReadWithoutItsMarkIsWatched) {
  Pair pair;
  fabric::WrappedWorker wrapped(pair.worker[0]);
  Ended ended;
  pair.fabric->start(*pair.worker[0], read_unmarked(&pair, &wrapped, 1'000'000, &ended));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_EQ(ended.outcome, fabric::WatchOutcome::timed_out);
}

// A READ that is executed at once has ended, whatever word it fetched: its watermark is not asked for.
TEST(Transfer, AReadThatIsExecutedAtOnceIsNotWatched) {
  Pair pair;
  Ended ended;
  fabric::store_word_release(pair.memory[1]->at(8), 5);
  pair.fabric->start(*pair.worker[0], read_unmarked(&pair, pair.worker[0], 1'000'000, &ended));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_TRUE(ended.ok());
  EXPECT_EQ(fabric::load_word(pair.memory[0]->at(8)), 5u);
}

}  // namespace
}  // namespace loch::onesided
