// Scope: coroutines that run alongside their parent on the same worker, and are joined.
//
//   Scope scope(worker.run_queue());
//   scope.spawn(client(worker, 0));
//   scope.spawn(client(worker, 1));
//   co_await scope.join();
//
// A Scope that is destroyed with children still running is a programmer's error and aborts; but not
// while an Abandon is alive: then a whole tree of coroutines that will never be resumed (a worker that
// was killed, a run that was cut short) is destroyed from its root, and the children go with it.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "common/coro/root.h"
#include "common/coro/run_queue.h"
#include "common/coro/task.h"

namespace loch::coro {

// The end of a worker that is killed in the middle of its work. While an Abandon lives, a Scope of
// this thread that is destroyed destroys its children first, and so on down: to free the whole tree of
// a worker, make an Abandon and destroy its outermost coroutine or Scope.
//
//   { Abandon abandon; main.destroy(); }    // every frame below main is freed, destructors run
//
// None of them is resumed. So whoever holds one of their handles (a RunQueue, a fabric's pending
// request or timer) must drop it, and whatever writes into their frames (a work request's result)
// must have been told to stop: the fabric forgets the worker first, then destroys. The stack grows with
// the depth of nesting, a few frames for each level.
class Abandon {
 public:
  Abandon() noexcept { ++depth_; }
  ~Abandon() { --depth_; }
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;
  [[nodiscard]] static bool is_active() noexcept { return depth_ != 0; }

 private:
  static inline thread_local unsigned depth_ = 0;
};

class Scope {
 public:
  explicit Scope(RunQueue& queue) : queue_(&queue) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    while (Abandon::is_active() && children_ != nullptr) destroy_youngest();
    LOCH_CHECK(running_ == 0, "{} children were not joined", running_);
  }

  // Starts the task at the worker's next turn.
  void spawn(Task<void> task) {
    const Child child = run(std::move(task));
    auto& promise = child.handle.promise();
    promise.scope = this;
    promise.older = children_;
    if (children_ != nullptr) children_->younger = &promise;
    children_ = &promise;
    ++running_;
    queue_->push(child.handle);
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
  struct Child {
    struct promise_type : RootPromise {
      Scope* scope = nullptr;
      promise_type* older = nullptr;
      promise_type* younger = nullptr;

      Child get_return_object() noexcept {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_never final_suspend() noexcept {
        scope->child_ended(this);
        return {};
      }
    };
    std::coroutine_handle<promise_type> handle;
  };

  static Child run(Task<void> task) { co_await std::move(task); }

  void unlink(Child::promise_type* child) noexcept {
    (child->younger != nullptr ? child->younger->older : children_) = child->older;
    if (child->older != nullptr) child->older->younger = child->younger;
    --running_;
  }
  void child_ended(Child::promise_type* child) noexcept {
    unlink(child);
    if (running_ == 0 && joiner_) queue_->push(std::exchange(joiner_, {}));
  }
  void destroy_youngest() noexcept {
    Child::promise_type* const child = children_;
    unlink(child);
    std::coroutine_handle<Child::promise_type>::from_promise(*child).destroy();
  }

  RunQueue* queue_;
  Child::promise_type* children_ = nullptr;  // youngest first
  std::size_t running_ = 0;
  std::coroutine_handle<> joiner_;
};

}  // namespace loch::coro
