// Scope: coroutines that run alongside their parent on the same worker and are joined.
//
//   Scope scope(worker.run_queue());
//   scope.spawn(client(worker, 0));
//   scope.spawn(client(worker, 1));
//   co_await scope.join();
//
// A Scope that is destroyed while children still run is a programming error and aborts the process. The
// exception: while an Abandon object is alive, a whole tree of coroutines that will never be resumed
// (because their worker was killed or the run was cut short) is destroyed from its root, with all
// children.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "common/coro/root.h"
#include "common/coro/run_queue.h"
#include "common/coro/task.h"

namespace loch::coro {

// Frees the coroutines of a worker that is killed in the middle of its work. While an Abandon object
// lives, the destructor of a Scope on this thread first destroys the Scope's children, recursively. To
// free the whole tree of a worker, make an Abandon object and destroy the outermost coroutine or Scope.
//
//   { Abandon abandon; main.destroy(); }    // every frame below main is freed, destructors run
//
// None of the destroyed coroutines is resumed. Whoever holds one of their handles (a RunQueue, a pending
// request or timer of a fabric) must therefore drop it, and nothing may write into their frames any more
// (such as the result of a work request): the fabric first forgets the worker, then destroys the tree.
// Destruction needs stack space in proportion to the depth of nesting.
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

  // Starts the task when the worker next runs its queue.
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

  // Suspends the caller until every child has ended. Only one coroutine may wait at a time.
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
  // The outermost coroutine of one child; it frees itself when the child has ended.
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
  Child::promise_type* children_ = nullptr;  // linked list of the running children, the youngest first
  std::size_t running_ = 0;
  std::coroutine_handle<> joiner_;
};

}  // namespace loch::coro
