// Measures the cost of coroutines: resuming a long-lived coroutine, and calling a nested coroutine whose
// frame comes from the pool or from malloc.
//
//   build/release/common/coro/coro_bench
#include <benchmark/benchmark.h>

#include <coroutine>
#include <cstdlib>

#include "common/base/check.h"
#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"

namespace loch::coro {
namespace {

Task<void> spin(RunQueue& queue, const bool* stop, std::int64_t* turns) {
  while (!*stop) {
    ++*turns;
    co_await queue.yield();
  }
}

// Measures resumptions: `range(0)` coroutines of one worker take turns through its run queue.
void resume_long_lived(benchmark::State& state) {
  RunQueue queue;
  Scope scope(queue);
  bool stop = false;
  std::int64_t turns = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) scope.spawn(spin(queue, &stop, &turns));
  queue.drain(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) queue.drain(1024);
  state.SetItemsProcessed(state.iterations() * 1024);
  benchmark::DoNotOptimize(turns);
  stop = true;
  queue.drain();
}
BENCHMARK(resume_long_lived)->Arg(1)->Arg(1000)->Arg(10'000);

Task<std::int64_t> nested(RunQueue& queue, std::int64_t value) {
  co_await queue.yield();
  co_return value + 1;
}

Task<void> calls(RunQueue& queue, const bool* stop, std::int64_t* sum) {
  while (!*stop) {
    const std::int64_t value = co_await nested(queue, *sum);
    *sum = value;
  }
}

void nested_task_pooled(benchmark::State& state) {
  RunQueue queue;
  Scope scope(queue);
  bool stop = false;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) scope.spawn(calls(queue, &stop, &sum));
  queue.drain(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) queue.drain(1024);
  state.SetItemsProcessed(state.iterations() * 1024);
  benchmark::DoNotOptimize(sum);
  stop = true;
  queue.drain();
}
BENCHMARK(nested_task_pooled)->Arg(1)->Arg(1000);

// A coroutine whose frames come from malloc, to measure the gain of the frame pool. Task cannot be used for
// that, because its frames always come from the pool.
struct Plain {
  struct promise_type {
    std::coroutine_handle<> continuation;
    std::int64_t value = 0;
    static void* operator new(std::size_t bytes) { return std::malloc(bytes); }
    static void operator delete(void* frame) noexcept { std::free(frame); }
    Plain get_return_object() { return Plain{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(std::int64_t result) { value = result; }
    void unhandled_exception() { std::abort(); }
  };
  explicit Plain(std::coroutine_handle<promise_type> h) : handle(h) {}
  Plain(const Plain&) = delete;
  ~Plain() { handle.destroy(); }
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
    handle.promise().continuation = caller;
    return handle;
  }
  std::int64_t await_resume() const noexcept { return handle.promise().value; }
  std::coroutine_handle<promise_type> handle;
};

Plain nested_plain(RunQueue& queue, std::int64_t value) {
  co_await queue.yield();
  co_return value + 1;
}

Task<void> calls_plain(RunQueue& queue, const bool* stop, std::int64_t* sum) {
  while (!*stop) {
    const std::int64_t value = co_await nested_plain(queue, *sum);
    *sum = value;
  }
}

void nested_task_malloc(benchmark::State& state) {
  RunQueue queue;
  Scope scope(queue);
  bool stop = false;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) scope.spawn(calls_plain(queue, &stop, &sum));
  queue.drain(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) queue.drain(1024);
  state.SetItemsProcessed(state.iterations() * 1024);
  benchmark::DoNotOptimize(sum);
  stop = true;
  queue.drain();
}
BENCHMARK(nested_task_malloc)->Arg(1)->Arg(1000);

}  // namespace
}  // namespace loch::coro
