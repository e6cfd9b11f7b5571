// Tests SMART's conflict avoidance: waits after failed CASes, the adaptation of their limit and of the number
// of writing coroutines to the share of retries, and the order in which writes begin.
#include "common/kv/conflicts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/coro/scope.h"
#include "common/kv/back_off.h"
#include "tests/support/fabrics.h"

namespace loch::kv {
namespace {

using Kind = ConflictConfig::Kind;

class Conflict : public testing::Test {
 protected:
  Conflict() {
    fabric_ = support::make_fabric("sim", {.nodes = 1});
    worker_ = fabric_->add_worker({}).value();
    EXPECT_TRUE(fabric_->exchange(1'000'000'000).has_value());
  }
  void run(coro::Task<void> main) {
    fabric_->start(*worker_, std::move(main));
    const Result<fabric::RunEnd> end = fabric_->run();
    ASSERT_TRUE(end.has_value());
    // if a waiting write never got its turn, the simulation would end with coroutines that still wait
    EXPECT_EQ(*end, fabric::RunEnd::finished);
  }

  ConflictConfig config_{.start = 1'000, .epoch = 10'000};
  std::unique_ptr<fabric::Fabric> fabric_;
  fabric::Worker* worker_ = nullptr;
};

// Makes `operations` writes, each of which begins when the conflict avoidance lets it and ends at once.
coro::Task<void> pass(Pacing* pacing, fabric::Worker* worker, int operations) {
  for (int i = 0; i < operations; ++i) {
    co_await pacing->enter();
    pacing->leave(*worker);
  }
}

// Fails again and again, waiting after each failure, for `epochs` intervals between adaptations.
coro::Task<void> retry(Pacing* pacing, fabric::Worker* worker, int epochs) {
  const Nanos end = worker->now() + epochs * Nanos{10'000} + 5'000;
  while (worker->now() < end) co_await pacing->back_off(worker, 0);
}

// An epoch (interval between adaptations) in which hardly any attempt is a retry; at its end the limits are
// adapted.
coro::Task<void> calm_epoch(Pacing* pacing, fabric::Worker* worker) {
  co_await pass(pacing, worker, 1'000);
  co_await worker->sleep_until(worker->now() + 10'000);
  co_await pacing->back_off(worker, 0);
}

TEST_F(Conflict, AWaitDoublesWithoutABound) {
  config_.kind = Kind::exponential;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    for (const std::uint32_t attempt : {0U, 1U, 5U, 12U}) {
      const Nanos before = worker->now(), least = Nanos{1'000} << attempt;
      co_await of->back_off(worker, attempt);
      EXPECT_GE(worker->now() - before, least) << attempt;
      EXPECT_LT(worker->now() - before, least + 1'200) << attempt;
    }
  };
  run(main(&pacing, worker_));
}

TEST_F(Conflict, NoneTriesAgainAtOnce) {
  config_.kind = Kind::none;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    const Nanos before = worker->now();
    co_await of->back_off(worker, 9);
    EXPECT_EQ(worker->now(), before);
  };
  run(main(&pacing, worker_));
}

// The limit of waits equals the first wait at the beginning, doubles while more than half of the attempts are
// retries, up to a bound, and is halved again while less than a tenth are.
TEST_F(Conflict, TheLimitFollowsTheShareOfRetries) {
  config_.kind = Kind::limited;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    const Nanos before = worker->now();
    co_await of->back_off(worker, 12);
    EXPECT_LT(worker->now() - before, 2'200);
    co_await retry(of, worker, 3);
    EXPECT_GE(of->limit(), 8'000);
    EXPECT_EQ(of->coroutines(), ConflictConfig::most_coroutines);
    co_await retry(of, worker, 40);
    EXPECT_EQ(of->limit(), 1'024'000);
    for (int i = 0; i < 12; ++i) co_await calm_epoch(of, worker);
    EXPECT_EQ(of->limit(), 1'000);
  };
  run(main(&pacing, worker_));
}

// With many retries, the number of coroutines that may write is halved first. Only when it is 1 does the
// limit of waits grow.
TEST_F(Conflict, CoroutinesAreThrottledBeforeTheLimitGrows) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    co_await retry(of, worker, 4);
    EXPECT_LT(of->coroutines(), ConflictConfig::most_coroutines);
    EXPECT_EQ(of->limit(), 1'000);
    co_await retry(of, worker, 8);
    EXPECT_EQ(of->coroutines(), 1u);
    EXPECT_GT(of->limit(), 1'000);
  };
  run(main(&pacing, worker_));
}

// When few attempts are retries, more coroutines may write again before the limit of waits falls.
TEST_F(Conflict, CoroutinesComeBackBeforeTheLimitFalls) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    co_await retry(of, worker, 10);
    EXPECT_EQ(of->coroutines(), 1u);
    const Nanos high = of->limit();
    EXPECT_GT(high, 1'000);
    for (std::uint32_t doublings = 1; doublings <= 6; ++doublings) {
      co_await calm_epoch(of, worker);
      EXPECT_EQ(of->coroutines(), 1u << doublings);
      EXPECT_EQ(of->limit(), high);
    }
    co_await calm_epoch(of, worker);
    EXPECT_EQ(of->coroutines(), ConflictConfig::most_coroutines);
    EXPECT_EQ(of->limit(), high / 2);
  };
  run(main(&pacing, worker_));
}

// Each epoch (interval between adaptations) is judged by its own retries: earlier epochs with few retries do
// not hide those of the present one.
TEST_F(Conflict, EachEpochIsCountedAnew) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    for (int i = 0; i < 3; ++i) co_await calm_epoch(of, worker);
    co_await retry(of, worker, 3);
    EXPECT_LE(of->coroutines(), ConflictConfig::most_coroutines / 4);
  };
  run(main(&pacing, worker_));
}

// An epoch (interval between adaptations) ends only when its time is over, however many retries there are.
TEST_F(Conflict, AnEpochChangesTheBoundsOnce) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    co_await of->back_off(worker, 0);
    const Nanos begin = worker->now();
    while (worker->now() < begin + 45'000) {
      co_await of->back_off(worker, 0);
      // an epoch of 10 us ends up to 2 us late, with a retry
      const auto ended = static_cast<std::uint32_t>((worker->now() - begin) / 10'000) + 1;
      EXPECT_GE(of->coroutines(), ConflictConfig::most_coroutines >> ended);
    }
    EXPECT_LE(of->coroutines(), ConflictConfig::most_coroutines >> 3);
  };
  run(main(&pacing, worker_));
}

// If the share of retries is between the thresholds `few` and `many`, nothing is adapted.
TEST_F(Conflict, BetweenTheMarksNothingChanges) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    for (int i = 0; i < 200; ++i) {
      co_await pass(of, worker, 3);
      co_await of->back_off(worker, 0);
    }
    EXPECT_EQ(of->coroutines(), ConflictConfig::most_coroutines);
    EXPECT_EQ(of->limit(), 1'000);
  };
  run(main(&pacing, worker_));
}

// A write that ends 1 us after it may begin; notes its number in `entered` when it begins.
coro::Task<void> hold(Pacing* pacing, fabric::Worker* worker, int number, std::vector<int>* entered) {
  co_await pacing->enter();
  entered->push_back(number);
  co_await worker->sleep_until(worker->now() + 1'000);
  pacing->leave(*worker);
}

TEST_F(Conflict, OperationsEnterInTheOrderInWhichTheyCame) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    co_await retry(of, worker, 12);
    EXPECT_EQ(of->coroutines(), 1u);
    std::vector<int> entered;
    coro::Scope scope(worker->run_queue());
    const Nanos before = worker->now();
    for (int i = 0; i < 5; ++i) scope.spawn(hold(of, worker, i, &entered));
    co_await scope.join();
    EXPECT_EQ(entered, (std::vector{0, 1, 2, 3, 4}));
    EXPECT_GE(worker->now() - before, 5'000);  // one after another
  };
  run(main(&pacing, worker_));
}

// When more coroutines may write than before, as many of the waiting writes as may run begin before any new
// write.
TEST_F(Conflict, WhoeverComesLaterOvertakesNobody) {
  config_.kind = Kind::throttled;
  Pacing pacing(config_);
  const auto main = [](Pacing* of, fabric::Worker* worker) -> coro::Task<void> {
    co_await retry(of, worker, 12);
    EXPECT_EQ(of->coroutines(), 1u);
    co_await pass(of, worker, 1'000);
    co_await of->enter();
    std::vector<int> entered;
    coro::Scope scope(worker->run_queue());
    for (int i = 0; i < 2; ++i) scope.spawn(hold(of, worker, i, &entered));
    co_await worker->sleep_until(worker->now() + 10'000);
    co_await of->back_off(worker, 0);
    EXPECT_EQ(of->coroutines(), 2u);
    EXPECT_TRUE(entered.empty());
    scope.spawn(hold(of, worker, 2, &entered));
    co_await worker->sleep_until(worker->now() + 100);
    EXPECT_TRUE(entered.empty());
    of->leave(*worker);
    const Nanos before = worker->now();
    co_await scope.join();
    EXPECT_EQ(entered, (std::vector{0, 1, 2}));
    // the first two writes, of 1 us each, run at once, and the third after them
    EXPECT_GE(worker->now() - before, 2'000);
    EXPECT_LT(worker->now() - before, 5'000);
  };
  run(main(&pacing, worker_));
}

// A client whose operations take 1 us, and which counts how many of them ran at once.
class SlowClient final : public Client {
 public:
  struct Seen {
    int running = 0, most = 0;
    std::vector<char> ended;
  };
  SlowClient(fabric::Worker& worker, Seen& seen) : worker_(worker), seen_(seen) {}
  [[nodiscard]] coro::Task<OpResult> get(Key /*key*/, fabric::OpStats* /*stats*/) override {
    return take_time(this, 'g', OpStatus::not_found);
  }
  [[nodiscard]] coro::Task<OpResult> put(Key /*key*/, ValueView /*value*/,
                                         fabric::OpStats* /*stats*/) override {
    return take_time(this, 'p', OpStatus::table_full);
  }
  [[nodiscard]] coro::Task<OpResult> remove(Key /*key*/, fabric::OpStats* /*stats*/) override {
    return take_time(this, 'd', OpStatus::conflict);
  }
  [[nodiscard]] coro::Task<OpResult> insert_if_absent(Key /*key*/, ValueView /*value*/,
                                                      fabric::OpStats* /*stats*/) override {
    return take_time(this, 'i', OpStatus::exists);
  }

 private:
  static coro::Task<OpResult> take_time(SlowClient* self, char kind, OpStatus status) {
    Seen& seen = self->seen_;
    seen.most = std::max(seen.most, ++seen.running);
    co_await self->worker_.sleep_until(self->worker_.now() + 1'000);
    --seen.running;
    seen.ended.push_back(kind);
    co_return OpResult{.status = status, .effect = Effect::unknown, .retries = 7, .value = {}};
  }
  fabric::Worker& worker_;
  Seen& seen_;
};

coro::Task<void> expect(coro::Task<OpResult> operation, OpStatus status) {
  const OpResult result = co_await std::move(operation);
  EXPECT_EQ(result.status, status);
  EXPECT_EQ(result.effect, Effect::unknown);
  EXPECT_EQ(result.retries, 7u);
}

// If a paced client's worker may have one write at a time, its writes follow each other and end with the same
// results as without pacing; GETs wait for no write.
TEST_F(Conflict, APacedClientsWritesWaitAndItsReadsDoNot) {
  const auto main = [](ConflictConfig config, fabric::Worker* worker) -> coro::Task<void> {
    config.kind = Kind::throttled;
    PacedWorker paced(*worker, &config);
    co_await retry(PacedWorker::of(*worker), worker, 12);
    EXPECT_EQ(PacedWorker::of(*worker)->coroutines(), 1u);
    SlowClient::Seen seen;
    const std::unique_ptr<Client> client = paced.paced(std::make_unique<SlowClient>(*worker, seen));
    coro::Scope scope(worker->run_queue());
    for (int i = 0; i < 2; ++i) {
      scope.spawn(expect(client->put({}, {}, nullptr), OpStatus::table_full));
      scope.spawn(expect(client->remove({}, nullptr), OpStatus::conflict));
      scope.spawn(expect(client->insert_if_absent({}, {}, nullptr), OpStatus::exists));
    }
    co_await scope.join();
    EXPECT_EQ(seen.most, 1);
    EXPECT_EQ(seen.ended, (std::vector{'p', 'd', 'i', 'p', 'd', 'i'}));
    seen = {};
    scope.spawn(expect(client->put({}, {}, nullptr), OpStatus::table_full));
    scope.spawn(expect(client->put({}, {}, nullptr), OpStatus::table_full));
    for (int i = 0; i < 3; ++i) scope.spawn(expect(client->get({}, nullptr), OpStatus::not_found));
    co_await scope.join();
    EXPECT_EQ(seen.most, 4);
    EXPECT_EQ(seen.ended.back(), 'p');
  };
  run(main(config_, worker_));
}

// A write that is destroyed while it waits for its turn takes itself out of the queue, so that others get
// theirs.
TEST_F(Conflict, WhoeverIsKilledWhileItWaitsLeavesTheQueue) {
  Pacing pacing(config_);
  for (std::uint32_t i = 0; i < ConflictConfig::most_coroutines; ++i) {
    Pacing::Entrance inside = pacing.enter();
    EXPECT_TRUE(inside.await_ready());
  }
  {
    Pacing::Entrance killed = pacing.enter();
    EXPECT_FALSE(killed.await_ready());
    killed.await_suspend(std::noop_coroutine());
  }
  pacing.leave(*worker_);
  EXPECT_TRUE(worker_->run_queue().empty());
  Pacing::Entrance next = pacing.enter();
  EXPECT_TRUE(next.await_ready());
}

// While a worker has a PacedWorker, back_off() waits as the PacedWorker's configuration says, here not at
// all.
TEST_F(Conflict, APacedWorkersOperationsWaitAsItSays) {
  const auto main = [](ConflictConfig config, fabric::Worker* worker) -> coro::Task<void> {
    config.kind = Kind::none;
    {
      const PacedWorker paced(*worker, &config);
      EXPECT_NE(PacedWorker::of(*worker), nullptr);
      const Nanos before = worker->now();
      co_await back_off(worker, 1'000'000, 1'000'000, 3);
      EXPECT_EQ(worker->now(), before);
    }
    const PacedWorker own(*worker, nullptr);
    EXPECT_EQ(PacedWorker::of(*worker), nullptr);
    const Nanos before = worker->now();
    co_await back_off(worker, 1'000'000, 1'000'000, 3);
    EXPECT_GT(worker->now(), before);
  };
  run(main(config_, worker_));
}

}  // namespace
}  // namespace loch::kv
