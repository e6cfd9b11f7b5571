// Task<T>: a lazy coroutine that is awaited once, where it is created. Coroutines that run alongside the
// caller are spawned in a Scope (scope.h). Rules for writing coroutines: docs/architecture.md,
// "Coroutines".
//
//   Task<int> f(Worker& worker) {
//     const Completion done = co_await worker.read(…);
//     co_return 42;
//   }
//   const int answer = co_await f(worker);
//
// Calls and returns use symmetric transfer, so that the stack does not grow; a coroutine that waits for
// an event is resumed through its worker's RunQueue (run_queue.h). Tasks do not throw: an exception that
// leaves a Task is a programming error and aborts the process.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "common/base/check.h"
#include "common/coro/frame_pool.h"

namespace loch::coro {

template <typename T>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation;

  static void* operator new(std::size_t bytes) { return FramePool::local().allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    FramePool::local().release(frame, bytes);
  }

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { check_failed(__FILE__, __LINE__, "no exception leaves a Task", ""); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
};

}  // namespace detail

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      Handle handle;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        handle.promise().continuation = caller;
        return handle;
      }
      T await_resume() {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a Task that is done has its value
        if constexpr (!std::is_void_v<T>) return std::move(*handle.promise().value);
      }
    };
    LOCH_CHECK(handle_ && !handle_.done(), "a Task is awaited once");
    return Awaiter{handle_};
  }

 private:
  friend promise_type;
  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Handle handle_;
};

namespace detail {
template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace loch::coro
