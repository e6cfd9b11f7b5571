// Selective signaling of one worker: which of its work requests are signaled, and the wait for the
// completions of earlier signaled ones.
#pragma once

#include <coroutine>
#include <cstdint>
#include <vector>

#include "common/coro/run_queue.h"
#include "common/coro/task.h"

namespace loch::micro {

// The state of a worker's selective signaling, which all coroutines of the worker share. While one coroutine
// waits to post, no other coroutine posts, as in a thread that polls for a completion.
class Signals {
 public:
  // Signaled work requests of a worker that may be outstanding: those of the batch that is being posted and
  // of the two batches before it.
  static constexpr std::uint32_t most_pending = 3;

  // One in `interval` work requests of the worker is signaled.
  Signals(coro::RunQueue& ready, std::uint32_t interval) : ready_(ready), interval_(interval) {}

  // Waits until the next work request may be posted; returns whether it is to be signaled.
  [[nodiscard]] coro::Task<bool> admit() {
    while (is_stalled_) co_await Parked{*this};
    if (posted_++ % interval_ != 0) co_return false;
    if (pending_ >= most_pending) {
      is_stalled_ = true;
      while (pending_ >= most_pending) co_await Parked{*this};
      is_stalled_ = false;
      wake_all();
    }
    ++pending_;
    co_return true;
  }
  // To be called when a signaled work request has completed.
  void completed() {
    --pending_;
    if (is_stalled_) wake_all();
  }

 private:
  // Suspends a coroutine until wake_all().
  struct Parked {
    Signals& signals;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> self) { signals.parked_.push_back(self); }
    void await_resume() const noexcept {}
  };
  void wake_all() {
    for (const std::coroutine_handle<> each : parked_) ready_.push(each);
    parked_.clear();
  }

  coro::RunQueue& ready_;
  std::uint32_t interval_;
  std::uint32_t posted_ = 0;
  std::uint32_t pending_ = 0;  // signaled work requests that are outstanding
  bool is_stalled_ = false;
  std::vector<std::coroutine_handle<>> parked_;
};

}  // namespace loch::micro
