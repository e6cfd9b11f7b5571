// RunQueue: the coroutines of one worker that can go on, in the order in which they became ready.
// One thread only. A ring that grows while a worker warms up and then stays: no allocation
// in a steady state.
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

  // Forgets them all, without resuming or freeing them: their worker was killed (Abandon, scope.h).
  void clear() { head_ = size_ = 0; }

  // Takes the oldest one; the queue must not be empty.
  [[nodiscard]] std::coroutine_handle<> pop() {
    const std::coroutine_handle<> next = ring_[head_];
    head_ = (head_ + 1) & mask_;
    --size_;
    return next;
  }
  // Resumes up to `most` coroutines, those that were pushed meanwhile included. Returns how many.
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
  std::vector<std::coroutine_handle<>> ring_;  // size is a power of two
  std::size_t mask_ = 63;                      // the ring's size less 1
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace loch::coro
