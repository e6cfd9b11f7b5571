// Coroutines that nobody awaits: the outermost frame of a worker's main or of a Scope's child, and what a
// fabric does by itself. Both types begin suspended: whoever calls one pushes `handle` to a RunQueue.
#pragma once

#include <coroutine>
#include <cstddef>

#include "common/base/check.h"
#include "common/coro/frame_pool.h"

namespace loch::coro {

// What every such coroutine has: a frame of the pool, and no exception that leaves it.
struct RootPromise {
  static void* operator new(std::size_t bytes) { return FramePool::local().allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    FramePool::local().release(frame, bytes);
  }
  std::suspend_always initial_suspend() noexcept { return {}; }
  void return_void() noexcept {}
  void unhandled_exception() noexcept {
    check_failed(__FILE__, __LINE__, "no exception leaves an outermost coroutine", "");
  }
};

// Stays suspended at its end, so that its owner can destroy it at any time, and has to.
struct Root {
  struct promise_type : RootPromise {
    Root get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always final_suspend() noexcept { return {}; }
  };
  std::coroutine_handle<promise_type> handle;
};

// Frees itself at its end. Whoever starts it sees to it that the end comes.
struct SelfOwned {
  struct promise_type : RootPromise {
    SelfOwned get_return_object() noexcept {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never final_suspend() noexcept { return {}; }
  };
  std::coroutine_handle<promise_type> handle;
};

}  // namespace loch::coro
