// RunQueue: the coroutines of one worker that are ready to run, in the order in which they became ready.
// For one thread only. A ring buffer that grows while a worker warms up, so that a steady state allocates
// no memory.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>
#include <vector>

namespace loch::coro {

class RunQueue {
 public:
  RunQueue() : ring_(64) {}

  void push(std::coroutine_handle<> ready) {
    if (size_ > mask_) [[unlikely]]
      grow();
    ring_[(head_ + size_) & mask_] = ready;
    ++size_;
  }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Drops all handles without resuming or freeing the coroutines: for a worker that was killed (Abandon
  // in scope.h).
  void clear() { head_ = size_ = 0; }

  // Removes and returns the handle that was pushed first; the queue must not be empty.
  [[nodiscard]] std::coroutine_handle<> pop() {
    const std::coroutine_handle<> next = ring_[head_];
    head_ = (head_ + 1) & mask_;
    --size_;
    return next;
  }
  // Resumes up to `most` coroutines, including those that are pushed meanwhile. Returns the number
  // resumed.
  std::size_t drain(std::size_t most = ~std::size_t{0}) {
    std::size_t done = 0;
    for (; done < most && size_ != 0; ++done) pop().resume();
    return done;
  }

  // co_await queue.yield(): lets every other ready coroutine of this worker run first.
  [[nodiscard]] auto yield() {
    struct Awaiter {
      RunQueue& queue;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> self) { queue.push(self); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  void grow() {
    std::vector<std::coroutine_handle<>> larger(ring_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[(head_ + i) & mask_];
    ring_ = std::move(larger);
    mask_ = ring_.size() - 1;
    head_ = 0;
  }
  std::vector<std::coroutine_handle<>> ring_;  // ring buffer; its size is a power of two
  std::size_t mask_ = 63;                      // size of the ring buffer minus 1
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace loch::coro
