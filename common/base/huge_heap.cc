// Lets the heap of glibc grow in one step, and asks the kernel for huge pages there.
#include "common/base/huge_heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/base/file.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace loch {

#if defined(__GLIBC__) && !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
namespace {

constexpr std::uintptr_t huge_page = 2 << 20;
constexpr int stretch_bytes = 0x7FFF'0000;     // the most that mallopt() takes
constexpr int mapped_from_bytes = 32 << 20;    // the most that glibc takes
constexpr int usual_bytes = 128 << 10;         // glibc's default of the three settings
constexpr std::size_t block_bytes = 16 << 20;  // more than the heap has left

// Whether the kernel takes address space for memory that will be used.
bool counts_address_space() {
  const auto mode = read_whole("/proc/sys/vm/overcommit_memory");
  return mode && mode->starts_with('2');
}

bool set(int mapped_from, int kept, int stretch) {
  return ::mallopt(M_MMAP_THRESHOLD, mapped_from) != 0 && ::mallopt(M_TRIM_THRESHOLD, kept) != 0 &&
         ::mallopt(M_TOP_PAD, stretch) != 0;
}

bool grow_heap() {
  if (counts_address_space() || !set(mapped_from_bytes, -1, stretch_bytes)) return false;
  void* volatile const block = std::malloc(block_bytes);  // volatile, so that it is not optimized away
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  // Elsewhere if something lies behind the heap.
  const bool is_in_heap = block != nullptr && begin < end && end - begin > block_bytes;
  if (is_in_heap) {
    const std::uintptr_t first = (begin + huge_page - 1) / huge_page * huge_page;
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
    (void)::mallopt(M_TOP_PAD, usual_bytes);
  } else {
    (void)set(usual_bytes, usual_bytes, usual_bytes);
  }
  std::free(block);
  return is_in_heap;
}

}  // namespace

void use_huge_heap() { [[maybe_unused]] static const bool is_grown = grow_heap(); }
#else
void use_huge_heap() {}
#endif

}  // namespace loch
