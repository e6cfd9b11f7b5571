// Tests SMART's conflict avoidance: waits after failed CASes, the adaptation of their limit and of the number
// of writing coroutines to the share of retries, and the order in which writes begin.
#include "common/kv/conflicts.h"

#include <gtest/gtest.h>

#include <memory>
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
    EXPECT_TRUE(fabric_->run().has_value());
  }

  ConflictConfig config_{.start = 1'000, .epoch = 10'000};
  std::unique_ptr<fabric::Fabric> fabric_;
  fabric::Worker* worker_ = nullptr;
};

// Makes `operations` writes that begin when the pacing lets them and end at once.
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
    for (int i = 0; i < 12; ++i) {
      co_await pass(of, worker, 1'000);
      co_await worker->sleep_until(worker->now() + 10'000);
      co_await of->back_off(worker, 0);
    }
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

// If the share of retries is between the two thresholds, nothing is adapted.
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

// A write that ends 1 us after it was let in; notes its number in `entered` when it is let in.
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

// A write that is destroyed while it waits to be let in takes itself out of the queue, so that others are let
// in.
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
