// Tests Task by itself: depth of recursion, results, misuse, and allocation of frames.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/coro/co_try.h"
#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"

namespace loch::coro {
namespace {

#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
constexpr int deep = 200'000;  // depth of recursion; sanitizer builds allocate each frame by malloc
#else
constexpr int deep = 1'000'000;
#endif

void run(RunQueue& queue, Task<void> task) {
  Scope scope(queue);
  scope.spawn(std::move(task));
  queue.drain();
}

std::uintptr_t stack_here() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

struct StackRange {
  std::uintptr_t lowest = UINTPTR_MAX, highest = 0;
  void note() {
    const std::uintptr_t here = stack_here();
    lowest = here < lowest ? here : lowest;
    highest = here > highest ? here : highest;
  }
};

Task<int> descend(StackRange* range, int depth) {
  range->note();
  if (depth == 0) co_return 0;
  const int below = co_await descend(range, depth - 1);
  range->note();
  co_return below + 1;
}

Task<void> deep_recursion(StackRange* range, int* out) {
  const int depth = co_await descend(range, deep);
  *out = depth;
}

enum class Step : std::uint8_t { ok, again, failed };

template <typename Ended>
Task<Ended> ends(Ended how) {
  co_return how;
}

Task<Step> three_steps(Step first, bool second, int* reached) {
  LOCH_CO_TRY(ends(first));
  *reached = 1;
  LOCH_CO_TRY_OR(Step::failed, ends(second));
  *reached = 2;
  co_return Step::ok;
}

Task<void> note(Step first, bool second, Step* ended, int* reached) {
  const Step how = co_await three_steps(first, second, reached);
  *ended = how;
}

// A coroutine ends with the first awaited step that does not end well, and returns that step's result or the
// value that LOCH_CO_TRY_OR gives in its place.
TEST(Task, EndsWithTheFirstStepThatDoesNotEndWell) {
  struct Case {
    Step first;
    bool second;
    Step ended;
    int reached;
  };
  for (const Case& each : {Case{Step::ok, true, Step::ok, 2}, Case{Step::again, true, Step::again, 0},
                           Case{Step::ok, false, Step::failed, 1}}) {
    RunQueue queue;
    Step ended = Step::ok;
    int reached = 0;
    run(queue, note(each.first, each.second, &ended, &reached));
    EXPECT_EQ(ended, each.ended);
    EXPECT_EQ(reached, each.reached);
  }
}

// Calls and returns use symmetric transfer, so that deep recursion needs no stack, in Debug and sanitizer
// builds too.
TEST(Task, RecursionDoesNotGrowTheStack) {
  RunQueue queue;
  StackRange range;
  int depth = 0;
  run(queue, deep_recursion(&range, &depth));
  EXPECT_EQ(depth, deep);
  EXPECT_LT(range.highest - range.lowest, 64u * 1024u);
  EXPECT_EQ(FramePool::local().live(), 0u);
}

Task<int> ready(int value) { co_return value; }

Task<void> many_calls(StackRange* range, std::int64_t* out) {
  std::int64_t sum = 0;
  for (int i = 0; i < deep; ++i) {
    const int value = co_await ready(1);
    sum += value;
    if (i % 1024 == 0) range->note();
  }
  *out = sum;
}

TEST(Task, ALoopOfCallsThatNeverSuspendIsFlat) {
  RunQueue queue;
  StackRange range;
  std::int64_t sum = 0;
  run(queue, many_calls(&range, &sum));
  EXPECT_EQ(sum, deep);
  EXPECT_LT(range.highest - range.lowest, 64u * 1024u);
}

struct NotDefault {
  explicit NotDefault(std::string s) : text(std::move(s)) {}
  NotDefault(NotDefault&&) = default;
  std::string text;
};

Task<std::unique_ptr<int>> make(RunQueue& queue, int value) {
  co_await queue.yield();
  auto result = std::make_unique<int>(value);
  co_return result;
}
Task<NotDefault> wrap(RunQueue& queue) {
  std::unique_ptr<int> number = co_await make(queue, 7);
  co_return NotDefault(std::to_string(*number));
}
Task<void> move_only(RunQueue& queue, std::string* out) {
  const NotDefault result = co_await wrap(queue);
  *out = result.text;
}

TEST(Task, ResultsMayBeMoveOnly) {
  RunQueue queue;
  std::string out;
  run(queue, move_only(queue, &out));
  EXPECT_EQ(out, "7");
}

// These coroutines use the idioms that GCC 12 miscompiles (docs/decisions/0001-clang-19-is-the-compiler.md).
Task<bool> yes(RunQueue& queue) {
  co_await queue.yield();
  co_return true;
}
Task<int> branches(RunQueue& queue, bool early) {
  const bool answer = co_await yes(queue);
  if (answer && early) co_return 42;
  co_return 7;
}
Task<void> both_branches(RunQueue& queue, int* out) {
  const int first = co_await branches(queue, true);
  const int second = co_await branches(queue, false);
  *out = first * 100 + second;
}

TEST(Task, EveryBranchReturns) {
  RunQueue queue;
  int out = 0;
  run(queue, both_branches(queue, &out));
  EXPECT_EQ(out, 4207);
}

Task<void> holds(std::shared_ptr<int> kept, RunQueue& queue) {
  const std::shared_ptr<int> copy = kept;
  co_await queue.yield();
  *copy += 1;
}

TEST(Task, ParametersAndLocalsAreDestroyed) {
  RunQueue queue;
  auto value = std::make_shared<int>(0);
  {
    auto never_started = holds(value, queue);
  }
  EXPECT_EQ(value.use_count(), 1);
  run(queue, holds(value, queue));
  EXPECT_EQ(value.use_count(), 1);
  EXPECT_EQ(*value, 1);
}

TEST(Task, AMovedFromTaskIsEmpty) {
  RunQueue queue;
  auto value = std::make_shared<int>(0);
  {
    Task<void> first = holds(value, queue);
    Task<void> second = std::move(first);
    run(queue, std::move(second));
  }
  EXPECT_EQ(*value, 1);
  EXPECT_EQ(FramePool::local().live(), 0u);
}

Task<void> awaits(Task<void> task) { co_await std::move(task); }

TEST(TaskDeathTest, AwaitingAMovedFromTaskAborts) {
  EXPECT_DEATH(
      {
        RunQueue queue;
        auto value = std::make_shared<int>(0);
        Task<void> first = holds(value, queue);
        Task<void> second = std::move(first);
        run(queue, awaits(std::move(first)));
      },
      "a Task is awaited once");
}

Task<void> throws() {
  throw std::runtime_error("oops");
  co_return;
}

TEST(TaskDeathTest, AnExceptionThatLeavesATaskAborts) {
  EXPECT_DEATH(
      {
        RunQueue queue;
        run(queue, throws());
      },
      "no exception leaves a Task");
}

TEST(FramePool, FramesComeFromFreeListsOnceWarm) {
  RunQueue queue;
  std::int64_t sum = 0;
  StackRange range;
  run(queue, many_calls(&range, &sum));
  const std::uint64_t before = FramePool::local().system_allocations();
  run(queue, many_calls(&range, &sum));
  const std::uint64_t after = FramePool::local().system_allocations();
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
  // In sanitizer builds each frame comes from malloc. The number of allocations depends on the optimiser,
  // which may merge a callee's frame into its caller's.
  EXPECT_GT(after, before);
#else
  EXPECT_EQ(after, before);
#endif
  EXPECT_EQ(FramePool::local().live(), 0u);
}

TEST(FramePool, SizeClasses) {
  FramePool pool;
  void* small = pool.allocate(1);
  void* edge = pool.allocate(64);
  void* large = pool.allocate(4096);
  void* huge = pool.allocate(1 << 20);
  EXPECT_EQ(pool.live(), 4u);
  for (void* frame : {small, edge, large, huge}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(frame) % 16, 0u);
  }
  pool.release(small, 1);
  pool.release(edge, 64);
  pool.release(large, 4096);
  pool.release(huge, 1 << 20);
  EXPECT_EQ(pool.live(), 0u);
#if !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
  void* again = pool.allocate(50);  // returns the frame of this size class that was freed last
  EXPECT_EQ(again, edge);
  pool.release(again, 50);
#endif
}

TEST(FramePoolDeathTest, FreeingOnAnotherThreadAborts) {
  EXPECT_DEATH(
      {
        FramePool mine;
        FramePool theirs;
        void* frame = mine.allocate(100);
        theirs.release(frame, 100);
      },
      "freed on a thread that did not make it");
}

// Each thread has its own frame pool, so that workers share none.
TEST(FramePool, ThreadsHaveTheirOwn) {
  const auto work = [] {
    RunQueue queue;
    int depth = 0;
    for (int i = 0; i < 2; ++i) {
      StackRange range;
      std::int64_t sum = 0;
      run(queue, many_calls(&range, &sum));
      depth += static_cast<int>(sum / deep);
    }
    EXPECT_EQ(depth, 2);
    EXPECT_EQ(FramePool::local().live(), 0u);
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
}

}  // namespace
}  // namespace loch::coro
