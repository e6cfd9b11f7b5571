// Types for coroutines that no other coroutine awaits: a worker's main, a Scope's child, and background
// activities of a fabric. Coroutines of both types (Root, SelfOwned) begin suspended: the caller pushes
// `handle` to a RunQueue.
#pragma once

#include <coroutine>
#include <cstddef>

#include "common/base/check.h"
#include "common/coro/frame_pool.h"

namespace loch::coro {

// Common base of the promises of Root and SelfOwned: the frame comes from the frame pool, and an exception
// that leaves the coroutine aborts the process.
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

// A coroutine that stays suspended at its end. Its owner may destroy it at any time, and has to destroy it in
// the end.
struct Root {
  struct promise_type : RootPromise {
    Root get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always final_suspend() noexcept { return {}; }
  };
  std::coroutine_handle<promise_type> handle;
};

// A coroutine that frees itself at its end; whoever starts it must ensure that it ends.
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
