// Tests the coroutine types Task, Scope and RunQueue: nesting, laziness, order, and abandonment.
#include <gtest/gtest.h>

#include <vector>

#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"

namespace loch::coro {
namespace {

Task<int> leaf(RunQueue& queue, int value) {
  co_await queue.yield();
  co_return value;
}

Task<int> sum(RunQueue& queue, int depth) {
  if (depth == 0) co_return 0;
  const int rest = co_await sum(queue, depth - 1);
  const int own = co_await leaf(queue, depth);
  co_return rest + own;
}

Task<void> store(RunQueue& queue, int depth, int* out) {
  const int value = co_await sum(queue, depth);
  *out = value;
}

TEST(Task, NestsAndReturnsValues) {
  RunQueue queue;
  int out = 0;
  {
    Scope scope(queue);
    scope.spawn(store(queue, 100, &out));
    queue.drain();
    EXPECT_EQ(scope.running(), 0u);
  }
  EXPECT_EQ(out, 5050);
  EXPECT_EQ(FramePool::local().live(), 0u);
}

TEST(Task, IsLazy) {
  RunQueue queue;
  int out = 0;
  {
    auto never = store(queue, 1, &out);
    (void)never;
  }
  EXPECT_EQ(out, 0);
  EXPECT_EQ(FramePool::local().live(), 0u);
}

Task<void> record(RunQueue& queue, std::vector<int>* log, int id) {
  for (int i = 0; i < 2; ++i) {
    log->push_back(id);
    co_await queue.yield();
  }
}

Task<void> parent(RunQueue& queue, std::vector<int>* log) {
  Scope scope(queue);
  for (int i = 0; i < 3; ++i) scope.spawn(record(queue, log, i));
  co_await scope.join();
  log->push_back(9);
}

TEST(Scope, JoinsInFirstInFirstOutOrder) {
  RunQueue queue;
  std::vector<int> log;
  Scope scope(queue);
  scope.spawn(parent(queue, &log));
  queue.drain();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 0, 1, 2, 9}));
}

TEST(RunQueue, GrowsAndKeepsOrder) {
  RunQueue queue;
  std::vector<int> log;
  {
    Scope scope(queue);
    for (int i = 0; i < 1000; ++i) scope.spawn(record(queue, &log, i));
    queue.drain();
  }
  ASSERT_EQ(log.size(), 2000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(log[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(FramePool::local().live(), 0u);
}

TEST(ScopeDeathTest, UnjoinedChildrenAbort) {
  EXPECT_DEATH(
      {
        RunQueue queue;
        std::vector<int> log;
        Scope scope(queue);
        scope.spawn(record(queue, &log, 1));
      },
      "were not joined");
}

}  // namespace
}  // namespace loch::coro
