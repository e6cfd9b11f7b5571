// Tests that allocations lie in huge pages after use_huge_heap().
#include "common/base/huge_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace loch {
namespace {

// The kB in huge pages of the mapping that contains `address`, by /proc/self/smaps.
std::uint64_t huge_kb_around(std::uintptr_t address) {
  std::ifstream file("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      is_inside = begin <= address && address < end;
    constexpr std::string_view label = "AnonHugePages:";
    if (is_inside && line.starts_with(label)) return std::stoull(line.substr(label.size()));
  }
  return 0;
}

// Whether the kernel gives huge pages to a mapping that asks for them.
bool has_huge_pages() {
  constexpr std::size_t bytes = 32 << 20;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
  auto* const first = static_cast<volatile std::byte*>(memory);
  for (std::size_t at = 0; at < bytes; at += 4096) first[at] = std::byte{1};
  const bool found = huge_kb_around(reinterpret_cast<std::uintptr_t>(memory) + bytes / 2) >= 20'000;
  ::munmap(memory, bytes);
  return found;
}

// A process that may not have so much address space: blocks that are freed go back to the kernel, as without
// the call.
TEST(HugeHeap, WithoutAddressSpaceNothingChanges) {
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
  GTEST_SKIP() << "the sanitizer's own allocations would be counted";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 1 << 30, .rlim_max = 1 << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    use_huge_heap();
    const auto resident_pages = [] {
      std::uint64_t all = 0, resident = 0;
      std::ifstream("/proc/self/statm") >> all >> resident;
      return resident;
    };
    const std::uint64_t before = resident_pages();
    constexpr std::size_t bytes = 20 << 20;
    void* volatile const block = std::malloc(bytes);  // volatile, so that it is not optimized away
    if (block == nullptr) ::_exit(3);
    std::memset(block, 1, bytes);
    std::free(block);
    ::_exit(resident_pages() < before + 1'000 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HugeHeap, SmallAndLargeBlocksLieInHugePages) {
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
  GTEST_SKIP() << "the sanitizer's own allocations would be counted";
#endif
  std::string strict;
  std::getline(std::ifstream("/proc/sys/vm/overcommit_memory"), strict);
  if (!has_huge_pages() || strict == "2") GTEST_SKIP() << "this machine has no huge pages";
  use_huge_heap();
  use_huge_heap();
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  for (int i = 0; i < 100'000; ++i) blocks.push_back(std::make_unique<std::byte[]>(200));
  blocks.push_back(std::make_unique<std::byte[]>(8 << 20));
  const auto address = [](const auto& block) { return reinterpret_cast<std::uintptr_t>(block.get()); };
  // the 28 MB that are in use, but for the pages at both ends
  EXPECT_GE(huge_kb_around(address(blocks.back())), 20'000U);
  EXPECT_EQ(huge_kb_around(address(blocks.back())), huge_kb_around(address(blocks[50'000])));
}

}  // namespace
}  // namespace loch
