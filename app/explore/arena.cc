// A memory arena whose state can be saved and restored: size classes with free lists within one reserved
// address range. Replaces the program's operator new and delete, which allocate from the arena while a thread
// uses it.
#include "app/explore/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/check.h"

namespace loch::explore {
namespace {

#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
constexpr bool is_possible = false;
#else
constexpr bool is_possible = true;
#endif

// Size of the reserved address range, whose pages the kernel maps when they are first accessed.
constexpr std::size_t range_bytes = std::size_t{1} << 30U;
constexpr std::size_t head_bytes = 16;  // bytes before each allocation: its size class and its padding
constexpr std::size_t frame_chunk_bytes = 16'384;
// Size classes are multiples of 16 bytes up to this size, and powers of two above it.
constexpr std::size_t small_bytes = 1024;
constexpr std::size_t small_classes = small_bytes / 16 + 1;
constexpr std::size_t classes = small_classes + 32;

constinit std::atomic<std::byte*> range{nullptr};
constinit std::atomic<bool> is_taken{false};
constinit thread_local Arena* current_arena = nullptr;

std::size_t class_of(std::size_t bytes) {
  if (bytes <= small_bytes) return (bytes + 15) / 16;
  return small_classes + static_cast<std::size_t>(std::bit_width((bytes - 1) / small_bytes)) - 1;
}
std::size_t bytes_of(std::size_t of_class) {
  return of_class < small_classes ? of_class * 16 : (small_bytes * 2) << (of_class - small_classes);
}

}  // namespace

struct Arena::State {
  std::byte* next = nullptr;  // all memory from here to the end of the range is unused
  std::array<void*, classes> free{};
};

std::unique_ptr<Arena> Arena::make() {
  if (!is_possible || is_taken.exchange(true)) return nullptr;
  if (range.load() == nullptr) {
    void* memory = mmap(nullptr, range_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      is_taken = false;
      return nullptr;
    }
    range = static_cast<std::byte*>(memory);
  }
  return std::unique_ptr<Arena>(new Arena());
}

Arena::Arena() : state_(new(range.load()) State), pool_(nullptr) {
  state_->next = range.load() + (sizeof(State) + 63) / 64 * 64;
  void* pool = allocate(sizeof(coro::FramePool), alignof(coro::FramePool));
  pool_ = new (pool) coro::FramePool(frame_chunk_bytes);
}

// Unmaps the arena's addresses without destroying the objects that lie there.
Arena::~Arena() {
  madvise(range.load(), range_bytes, MADV_DONTNEED);
  is_taken = false;
}

Arena::Use::Use(Arena* arena) : outer_(current_arena), outer_pool_(nullptr), is_on_(arena != nullptr) {
  if (!is_on_) return;
  current_arena = arena;
  outer_pool_ = coro::FramePool::exchange_local(arena->pool_);
}
Arena::Use::~Use() {
  if (!is_on_) return;
  current_arena = outer_;
  coro::FramePool::exchange_local(outer_pool_);
}

Arena::Pause::Pause() : outer_(std::exchange(current_arena, nullptr)) {}
Arena::Pause::~Pause() { current_arena = outer_; }

Arena* Arena::current() { return current_arena; }

bool Arena::owns(const void* pointer) {
  const std::byte* from = range.load(std::memory_order_relaxed);
  return from != nullptr &&
         static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - from) < range_bytes;
}

void* Arena::allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t slack = alignment > head_bytes ? alignment : 0;
  const std::size_t of_class = class_of(std::max<std::size_t>(bytes + slack, 1));
  std::byte* piece = static_cast<std::byte*>(state_->free[of_class]);
  if (piece != nullptr) {
    std::memcpy(&state_->free[of_class], piece, sizeof(void*));
  } else {
    piece = state_->next + head_bytes;
    state_->next = piece + bytes_of(of_class);
    LOCH_CHECK(state_->next <= range.load() + range_bytes, "an explored run wants more than a gigabyte");
  }
  std::byte* aligned = piece;
  if (slack != 0) {
    const auto address = reinterpret_cast<std::uintptr_t>(piece);
    aligned = piece + ((address + alignment - 1) / alignment * alignment - address);
  }
  const std::uint64_t head[2] = {of_class, static_cast<std::uint64_t>(aligned - piece)};
  std::memcpy(aligned - head_bytes, head, sizeof head);
  return aligned;
}

// Frees an allocation of the arena. While a thread uses the arena, only that thread may call this function;
// at other times any thread may.
void Arena::release(void* pointer) {
  auto* aligned = static_cast<std::byte*>(pointer);
  std::uint64_t head[2];
  std::memcpy(head, aligned - head_bytes, sizeof head);
  std::byte* piece = aligned - head[1];
  auto* state = std::launder(reinterpret_cast<State*>(range.load(std::memory_order_relaxed)));
  std::memcpy(piece, &state->free[head[0]], sizeof(void*));
  state->free[head[0]] = piece;
}

std::size_t Arena::used() const { return static_cast<std::size_t>(state_->next - range.load()); }

void Arena::mark() {
  const std::size_t whole = (used() + block_bytes - 1) / block_bytes * block_bytes;
  first_.assign(range.load(), range.load() + whole);
}

void Arena::reset() { restore_blocks(nullptr); }
void Arena::restore(const Saved& saved) { restore_blocks(&saved); }

Arena::Saved Arena::save() {
  Saved saved;
  const std::byte* from = range.load();
  const std::size_t whole = (used() + block_bytes - 1) / block_bytes;
  different_.clear();
  for (std::size_t block = 0; block < whole; ++block) {
    const std::size_t at = block * block_bytes;
    if (at < first_.size() && std::memcmp(from + at, first_.data() + at, block_bytes) == 0) continue;
    different_.push_back(static_cast<std::uint32_t>(block));
  }
  saved.blocks = different_;
  saved.bytes = std::make_unique_for_overwrite<std::byte[]>(different_.size() * block_bytes);
  for (std::size_t i = 0; i < different_.size(); ++i)
    std::memcpy(saved.bytes.get() + i * block_bytes, from + saved.blocks[i] * block_bytes, block_bytes);
  return saved;
}

// Restores the arena's memory: blocks that `saved` contains are copied from `saved`, all others from the copy
// that mark() made. Memory beyond the blocks of both is not cleared, because new allocations are written
// before they are read.
void Arena::restore_blocks(const Saved* saved) {
  std::byte* to = range.load();
  const std::size_t of_saved = saved == nullptr ? 0 : saved->blocks.size();
  std::size_t next = 0;
  for (std::size_t at = 0; at < first_.size(); at += block_bytes) {
    const bool is_saved = next < of_saved && saved->blocks[next] == at / block_bytes;
    const std::byte* source = is_saved ? saved->bytes.get() + next * block_bytes : first_.data() + at;
    if (is_saved) ++next;
    std::memcpy(to + at, source, block_bytes);
  }
  for (; next < of_saved; ++next)
    std::memcpy(to + std::size_t{saved->blocks[next]} * block_bytes, saved->bytes.get() + next * block_bytes,
                block_bytes);
}

}  // namespace loch::explore

#if !defined(LOCH_ASAN) && !defined(LOCH_TSAN)

// The program's operator new and delete: outside of an Arena::Use they call malloc and free, like those of
// the standard library.

using loch::explore::Arena;

void* operator new(std::size_t bytes) {
  if (Arena* arena = Arena::current(); arena != nullptr) [[unlikely]]
    return arena->allocate(bytes, alignof(std::max_align_t));
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  if (Arena* arena = Arena::current(); arena != nullptr) [[unlikely]]
    return arena->allocate(bytes, align);
  void* memory = std::aligned_alloc(align, (std::max<std::size_t>(bytes, 1) + align - 1) / align * align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* pointer) noexcept {
  if (Arena::owns(pointer)) [[unlikely]]
    Arena::release(pointer);
  else
    std::free(pointer);
}
void operator delete(void* pointer, std::size_t) noexcept { operator delete(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { operator delete(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { operator delete(pointer); }

#endif
