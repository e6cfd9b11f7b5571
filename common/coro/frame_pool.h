// Memory for coroutine frames: 64-byte size classes on free lists, carved from 2 MiB arenas that
// ask for transparent huge pages. One pool a thread, no locks: a frame is freed on the thread
// that made it (a worker's coroutines never leave its thread). Under ASan and TSan every frame is
// its own malloc, so that the sanitizer sees a use after free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "common/base/check.h"

namespace loch::coro {

class FramePool {
 public:
  // The calling thread's pool; made at first use, its arenas freed at thread exit.
  static FramePool& local() { return current_ != nullptr ? *current_ : make_local(); }

  // Carves from pieces of that size: 2 MiB on huge pages, or smaller ones that come from operator new.
  explicit FramePool(std::size_t piece_bytes = arena_bytes) : piece_bytes_(piece_bytes) {}
  ~FramePool();
  // The calling thread takes its frames from that pool from now on (null: from its own). Returns the pool
  // before. Frames go back to the pool that they came from only while that pool is in place again.
  static FramePool* exchange_local(FramePool* pool) {
    FramePool* const before = current_;
    current_ = pool;
    return before;
  }
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  [[nodiscard]] void* allocate(std::size_t bytes) {
    ++live_;
    const std::size_t index = class_of(bytes);
    if (!pooled || index > classes) return allocate_large(bytes);
    Free* const head = free_[index];
    if (head == nullptr) return carve(index * class_bytes);
    free_[index] = head->next;
    return head;
  }
  void release(void* frame, std::size_t bytes) noexcept {
    LOCH_CHECK(live_ > 0, "a coroutine frame was freed on a thread that did not make it");
    --live_;
    const std::size_t index = class_of(bytes);
    if (!pooled || index > classes) return release_large(frame);
    free_[index] = new (frame) Free{free_[index]};
  }

  // Frames that are alive now; zero when a worker has stopped, or a task leaked.
  [[nodiscard]] std::uint64_t live() const { return live_; }
  // Times that memory came from the system and not from a free list; flat in a steady state.
  [[nodiscard]] std::uint64_t system_allocations() const { return system_allocations_; }

 private:
  struct Free {
    Free* next;
  };
  struct Arena {
    Arena* next;
  };
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
  static constexpr bool pooled = false;
#else
  static constexpr bool pooled = true;
#endif
  static constexpr std::size_t class_bytes = 64;
  static constexpr std::size_t classes = 64;  // frames up to 4 KiB; larger ones go to malloc
  static constexpr std::size_t arena_bytes = std::size_t{2} << 20;

  static std::size_t class_of(std::size_t bytes) { return (bytes + class_bytes - 1) / class_bytes; }
  static FramePool& make_local();
  void* carve(std::size_t rounded);
  void* allocate_large(std::size_t bytes);
  static void release_large(void* frame) noexcept;

  static inline constinit thread_local FramePool* current_ = nullptr;  // a plain pointer: no guard to pass
  std::size_t piece_bytes_;
  Free* free_[classes + 1] = {};
  std::byte* arena_at_ = nullptr;
  std::size_t arena_left_ = 0;
  Arena* arenas_ = nullptr;
  std::uint64_t live_ = 0;
  std::uint64_t system_allocations_ = 0;
};

}  // namespace loch::coro
