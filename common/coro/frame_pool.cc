#include "common/coro/frame_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "common/base/check.h"

namespace loch::coro {

#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
constexpr bool pooled = false;
#else
constexpr bool pooled = true;
#endif

FramePool& FramePool::local() {
  static thread_local FramePool pool;
  return pool;
}

FramePool::~FramePool() {
  while (arenas_ != nullptr) {
    Arena* next = arenas_->next;
    std::free(arenas_);
    arenas_ = next;
  }
}

void* FramePool::carve(std::size_t rounded) {
  if (arena_left_ < rounded) {
    void* memory = std::aligned_alloc(arena_bytes, arena_bytes);
    if (memory == nullptr) throw std::bad_alloc();
    (void)madvise(memory, arena_bytes, MADV_HUGEPAGE);  // without it many coroutines thrash the TLB
    ++system_allocations_;
    auto* arena = new (memory) Arena{arenas_};
    arenas_ = arena;
    arena_at_ = static_cast<std::byte*>(memory) + class_bytes;
    arena_left_ = arena_bytes - class_bytes;
  }
  std::byte* frame = arena_at_;
  arena_at_ += rounded;
  arena_left_ -= rounded;
  return frame;
}

void* FramePool::allocate(std::size_t bytes) {
  ++live_;
  const std::size_t index = (bytes + class_bytes - 1) / class_bytes;
  if (!pooled || index > classes) {
    ++system_allocations_;
    void* frame = std::malloc(bytes);
    if (frame == nullptr) throw std::bad_alloc();
    return frame;
  }
  if (Free* head = free_[index]; head != nullptr) {
    free_[index] = head->next;
    return head;
  }
  return carve(index * class_bytes);
}

void FramePool::release(void* frame, std::size_t bytes) noexcept {
  LOCH_CHECK(live_ > 0, "a coroutine frame was freed on a thread that did not make it");
  --live_;
  const std::size_t index = (bytes + class_bytes - 1) / class_bytes;
  if (!pooled || index > classes) {
    std::free(frame);
    return;
  }
  free_[index] = new (frame) Free{free_[index]};
}

}  // namespace loch::coro
