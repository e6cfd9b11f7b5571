// Scope: coroutines that run beside their parent on the same worker, and are joined.
//
//   Scope scope(worker.run_queue());
//   scope.spawn(client(worker, 0));
//   scope.spawn(client(worker, 1));
//   co_await scope.join();
//
// A Scope that is destroyed with children still running is a programmer's error and aborts.
#pragma once

#include <coroutine>
#include <cstddef>

#include "common/base/check.h"
#include "common/coro/run_queue.h"
#include "common/coro/task.h"

namespace loch::coro {

class Scope {
 public:
  explicit Scope(RunQueue& queue) : queue_(&queue) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { LOCH_CHECK(running_ == 0, "{} children were not joined", running_); }

  // Starts the task at the worker's next turn.
  void spawn(Task<void> task) {
    ++running_;
    Root root = run(std::move(task), this);
    queue_->push(root.handle);
  }

  [[nodiscard]] std::size_t running() const { return running_; }

  // Suspends until every child has ended. One joiner.
  [[nodiscard]] auto join() {
    struct Awaiter {
      Scope& scope;
      bool await_ready() const noexcept { return scope.running_ == 0; }
      void await_suspend(std::coroutine_handle<> self) noexcept {
        LOCH_CHECK(!scope.joiner_, "a Scope has one joiner");
        scope.joiner_ = self;
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  // The frame that owns a child; it frees itself when the child has ended.
  struct Root {
    struct promise_type {
      static void* operator new(std::size_t bytes) { return FramePool::local().allocate(bytes); }
      static void operator delete(void* frame, std::size_t bytes) noexcept {
        FramePool::local().release(frame, bytes);
      }
      Root get_return_object() noexcept {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept {
        check_failed(__FILE__, __LINE__, "no exception leaves a Scope's child", "");
      }
    };
    std::coroutine_handle<promise_type> handle;
  };

  static Root run(Task<void> task, Scope* scope) {
    co_await std::move(task);
    scope->child_ended();
  }
  void child_ended() {
    if (--running_ == 0 && joiner_) {
      queue_->push(joiner_);
      joiner_ = {};
    }
  }

  RunQueue* queue_;
  std::size_t running_ = 0;
  std::coroutine_handle<> joiner_;
};

}  // namespace loch::coro
