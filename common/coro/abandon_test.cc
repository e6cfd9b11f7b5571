// Tests a worker that is killed while its coroutines wait: every frame of its tree of coroutines is freed
// and every destructor runs.
#include <gtest/gtest.h>

#include <coroutine>
#include <memory>
#include <vector>

#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"

namespace loch::coro {
namespace {

// An awaitable that suspends for ever, like the completion of a request to a peer that never answers.
struct Never {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  void await_resume() const noexcept {}
};

struct Guard {
  explicit Guard(int* count) : alive(count) { ++*alive; }
  Guard(const Guard&) = delete;
  ~Guard() { --*alive; }
  int* alive;
};

Task<std::unique_ptr<int>> stuck(int* alive, int depth) {
  Guard guard(alive);
  if (depth == 0) {
    co_await Never{};
    co_return std::make_unique<int>(1);
  }
  std::unique_ptr<int> below = co_await stuck(alive, depth - 1);
  co_return below;
}

Task<void> operation(int* alive, int depth) {
  Guard guard(alive);
  const std::unique_ptr<int> result = co_await stuck(alive, depth);
  ADD_FAILURE() << "resumed with " << *result;
}

// A client coroutine that spawns `width` children in a Scope of its own: as long as `depth` is above 0 they
// are clients with a smaller `depth`, then operations.
Task<void> client(RunQueue& queue, int* alive, int width, int depth) {
  Guard guard(alive);
  Scope scope(queue);
  for (int i = 0; i < width; ++i) {
    if (depth > 0) {
      scope.spawn(client(queue, alive, width, depth - 1));
    } else {
      scope.spawn(operation(alive, 10));
    }
  }
  co_await scope.join();
  ADD_FAILURE() << "joined";
}

class AbandonTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(alive_, 0);
    EXPECT_EQ(FramePool::local().live(), 0u);
    EXPECT_FALSE(Abandon::is_active());
  }
  RunQueue queue_;
  int alive_ = 0;
};

TEST_F(AbandonTest, FreesATreeThatWaits) {
  Abandon abandon;
  {
    Scope scope(queue_);
    scope.spawn(client(queue_, &alive_, 3, 2));
    queue_.drain();
    // Number of live Guard objects, which count themselves: 1 + 3 + 9 clients with one each, and 27
    // operations of 12 coroutine frames with one each.
    EXPECT_EQ(alive_, 13 + 27 * 12);
    EXPECT_GT(FramePool::local().live(), 300u);
  }
  EXPECT_EQ(alive_, 0);
}

TEST_F(AbandonTest, FreesWhatHasNotStartedYet) {
  auto scope = std::make_unique<Scope>(queue_);
  for (int i = 0; i < 5; ++i) scope->spawn(operation(&alive_, 1));
  EXPECT_EQ(queue_.size(), 5u);
  {
    Abandon abandon;
    scope.reset();
  }
  queue_.clear();
  EXPECT_EQ(queue_.drain(), 0u);
  EXPECT_EQ(alive_, 0);
}

TEST_F(AbandonTest, FreesATreeInTheMiddleOfATurn) {
  auto scope = std::make_unique<Scope>(queue_);
  scope->spawn(client(queue_, &alive_, 4, 1));
  queue_.drain(3);  // some of the children have started, the others are still in the run queue
  EXPECT_GT(queue_.size(), 0u);
  EXPECT_GT(alive_, 0);
  queue_.clear();
  Abandon abandon;
  scope.reset();
  EXPECT_EQ(alive_, 0);
}

TEST_F(AbandonTest, OthersOfTheThreadGoOn) {
  RunQueue other_queue;
  int other_alive = 0;
  Scope other(other_queue);
  other.spawn(operation(&other_alive, 3));
  other_queue.drain();
  {
    auto scope = std::make_unique<Scope>(queue_);
    scope->spawn(client(queue_, &alive_, 2, 1));
    queue_.drain();
    Abandon abandon;
    scope.reset();
  }
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(other_alive, 5);
  Abandon abandon;
  std::destroy_at(&other);
  EXPECT_EQ(other_alive, 0);
  std::construct_at(&other, other_queue);
}

// Coroutine frames are destroyed recursively; here coroutines nest far deeper than those of any protocol.
TEST_F(AbandonTest, DeepTrees) {
  auto scope = std::make_unique<Scope>(queue_);
  scope->spawn(operation(&alive_, 5'000));
  queue_.drain();
  EXPECT_EQ(alive_, 5'002);
  Abandon abandon;
  scope.reset();
  EXPECT_EQ(alive_, 0);
}

Task<void> ends(RunQueue& queue, std::vector<int>* log, int id, int turns) {
  for (int i = 0; i < turns; ++i) co_await queue.yield();
  log->push_back(id);
}

Task<void> joins(RunQueue& queue, std::vector<int>* log) {
  Scope scope(queue);
  scope.spawn(ends(queue, log, 1, 3));
  scope.spawn(ends(queue, log, 2, 1));
  scope.spawn(ends(queue, log, 3, 2));
  co_await scope.join();
  scope.spawn(ends(queue, log, 4, 0));  // a Scope may spawn children again after a join
  co_await scope.join();
  log->push_back(5);
}

TEST_F(AbandonTest, ChildrenThatEndInAnyOrderAreForgotten) {
  std::vector<int> log;
  Abandon abandon;  // must not destroy children that have ended already
  {
    Scope scope(queue_);
    scope.spawn(joins(queue_, &log));
    queue_.drain();
    EXPECT_EQ(scope.running(), 0u);
  }
  EXPECT_EQ(log, (std::vector<int>{2, 3, 1, 4, 5}));
}

}  // namespace
}  // namespace loch::coro
