// Allocates coroutine frames from per-thread free lists of size classes.
#include "common/coro/frame_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace loch::coro {

FramePool& FramePool::make_local() {
  static thread_local FramePool pool;
  current_ = &pool;
  return pool;
}

FramePool::~FramePool() {
  while (arenas_ != nullptr) {
    Arena* next = arenas_->next;
    if (piece_bytes_ == arena_bytes)
      std::free(arenas_);
    else
      ::operator delete(arenas_);
    arenas_ = next;
  }
}

void* FramePool::carve(std::size_t rounded) {
  if (arena_left_ < rounded) {
    void* memory = nullptr;
    if (piece_bytes_ == arena_bytes) {
      memory = std::aligned_alloc(arena_bytes, arena_bytes);
      if (memory == nullptr) throw std::bad_alloc();
      // with small pages many coroutines would thrash the TLB
      (void)madvise(memory, arena_bytes, MADV_HUGEPAGE);
    } else {
      memory = ::operator new(piece_bytes_);
    }
    ++system_allocations_;
    auto* arena = new (memory) Arena{arenas_};
    arenas_ = arena;
    arena_at_ = static_cast<std::byte*>(memory) + class_bytes;
    arena_left_ = piece_bytes_ - class_bytes;
  }
  std::byte* frame = arena_at_;
  arena_at_ += rounded;
  arena_left_ -= rounded;
  return frame;
}

void* FramePool::allocate_large(std::size_t bytes) {
  ++system_allocations_;
  return ::operator new(bytes);
}

void FramePool::release_large(void* frame) noexcept { ::operator delete(frame); }

}  // namespace loch::coro
