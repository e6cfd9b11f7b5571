// Tests that allocations lie in huge pages after use_huge_heap().
#include "common/base/huge_heap.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
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

TEST(HugeHeap, SmallAndLargeBlocksLieInHugePages) {
#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
  GTEST_SKIP() << "the sanitizer's own allocations would be counted";
#endif
  std::string modes;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), modes);
  if (modes.empty() || modes.find("[never]") != std::string::npos)
    GTEST_SKIP() << "this machine has no huge pages";
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
