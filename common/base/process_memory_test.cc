// Tests what a copied page is said to cost.
#include "common/base/process_memory.h"

#include <gtest/gtest.h>

namespace loch {
namespace {

TEST(ProcessMemory, ACopiedPageCostsMoreThanAWriteAndLessThanAMillisecond) {
  const double cost = page_copy_s();
  EXPECT_GT(cost, 50e-9);  // 4 KB are copied, and the processor enters the kernel
  EXPECT_LT(cost, 1e-3);
  EXPECT_EQ(page_copy_s(), cost);
}

TEST(ProcessMemory, PeakAndAvailableMemoryAreBytes) {
  EXPECT_GT(peak_memory_bytes(), std::uint64_t{1} << 20);
  EXPECT_GT(available_memory_bytes(), std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace loch
