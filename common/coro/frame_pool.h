// Memory for coroutine frames: free lists of size classes in steps of 64 bytes, filled from 2 MiB arenas
// for which transparent huge pages are requested. Each thread has its own pool, without locks, because a
// worker's coroutines never leave its thread and so frames are freed by the thread that allocated them.
// Under ASan and TSan every frame is a separate malloc, so that the sanitizer detects a use after free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "common/base/check.h"

namespace loch::coro {

class FramePool {
 public:
  // Returns the calling thread's pool, which is made at first use; its arenas are freed at thread exit.
  static FramePool& local() { return current_ != nullptr ? *current_ : make_local(); }

  // Makes a pool that takes memory in pieces of `piece_bytes`: 2 MiB arenas on huge pages, or smaller
  // pieces from operator new.
  explicit FramePool(std::size_t piece_bytes = arena_bytes) : piece_bytes_(piece_bytes) {}
  ~FramePool();
  // Makes `pool` the pool of the calling thread (null: the thread's own pool) and returns the pool that it
  // replaces. A frame must be freed while the pool from which it was allocated is in place.
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

  // Number of frames that are allocated now; not zero after a worker has stopped means that a task
  // leaked.
  [[nodiscard]] std::uint64_t live() const { return live_; }
  // How often memory was taken from the system: for an arena, or for a frame that is too large for the size
  // classes. Constant in a steady state without such frames.
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
  static constexpr std::size_t classes =
      64;  // size classes up to 4 KiB; larger frames come from operator new
  static constexpr std::size_t arena_bytes = std::size_t{2} << 20;

  static std::size_t class_of(std::size_t bytes) { return (bytes + class_bytes - 1) / class_bytes; }
  static FramePool& make_local();
  void* carve(std::size_t rounded);
  void* allocate_large(std::size_t bytes);
  static void release_large(void* frame) noexcept;

  // a plain pointer, so that access needs no initialisation guard
  static inline constinit thread_local FramePool* current_ = nullptr;
  std::size_t piece_bytes_;
  Free* free_[classes + 1] = {};
  std::byte* arena_at_ = nullptr;
  std::size_t arena_left_ = 0;
  Arena* arenas_ = nullptr;
  std::uint64_t live_ = 0;
  std::uint64_t system_allocations_ = 0;
};

}  // namespace loch::coro
