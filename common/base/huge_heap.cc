// Lets the heap of glibc grow in one step, and asks the kernel for huge pages there.
#include "common/base/huge_heap.h"

#if defined(__GLIBC__) && !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#endif

namespace loch {

#if defined(__GLIBC__) && !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
namespace {

constexpr std::uintptr_t huge_page = 2 << 20;
constexpr int stretch_bytes = 0x7FFF'0000;  // of address space; memory only as it is used
constexpr int mapped_from_bytes =
    32 << 20;  // the most that glibc takes: larger blocks are mappings of their own
constexpr int later_stretch_bytes = 64 << 20;  // of the steps in which the heap grows beyond the first
constexpr std::size_t first_bytes = 16 << 20;  // a block that is larger than what the heap has left

bool grow_heap() {
  if (::mallopt(M_MMAP_THRESHOLD, mapped_from_bytes) == 0 || ::mallopt(M_TRIM_THRESHOLD, -1) == 0 ||
      ::mallopt(M_TOP_PAD, stretch_bytes) == 0)
    return false;
  // volatile, so that the block is not optimized away
  void* volatile const block = std::malloc(first_bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  (void)::mallopt(M_TOP_PAD, later_stretch_bytes);
  const bool is_in_heap = block != nullptr && begin < end && end - begin > first_bytes;
  if (is_in_heap) {
    const std::uintptr_t first = (begin + huge_page - 1) / huge_page * huge_page;
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
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
