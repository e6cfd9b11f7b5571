// Memory for coroutine frames: 64-byte size classes on free lists, carved from 2 MiB arenas that
// ask for transparent huge pages. One pool a thread, no locks: a frame is freed on the thread
// that made it (a worker's coroutines never leave its thread). Under ASan and TSan every frame is
// its own malloc, so that the sanitizer sees a use after free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loch::coro {

class FramePool {
 public:
  // The calling thread's pool; made at first use, its arenas freed at thread exit.
  static FramePool& local();

  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* frame, std::size_t bytes) noexcept;

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
  static constexpr std::size_t class_bytes = 64;
  static constexpr std::size_t classes = 64;  // frames up to 4 KiB; larger ones go to malloc
  static constexpr std::size_t arena_bytes = std::size_t{2} << 20;

  void* carve(std::size_t rounded);

  Free* free_[classes + 1] = {};
  std::byte* arena_at_ = nullptr;
  std::size_t arena_left_ = 0;
  Arena* arenas_ = nullptr;
  std::uint64_t live_ = 0;
  std::uint64_t system_allocations_ = 0;
};

}  // namespace loch::coro
