// Tests copies of shared memory at every alignment, and which bytes are kept of a region that stores only a
// part of each entry.
#include "common/fabric/memory.h"

#include <gtest/gtest.h>

#include <array>

#include "common/fabric/region.h"

namespace loch::fabric {
namespace {

TEST(SharedMemory, CopiesEveryAlignmentAndLength) {
  alignas(8) std::array<std::byte, 64> shared{};
  for (std::size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<std::byte>(i + 1);
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t length = 0; length < 30; ++length) {
      std::array<std::byte, 40> out{};
      copy_from_shared(out.data(), shared.data() + from, length);
      alignas(8) std::array<std::byte, 64> target{};
      copy_to_shared(target.data() + from, out.data(), length);
      alignas(8) std::array<std::byte, 64> moved{};
      copy_shared(moved.data() + 3, shared.data() + from, length);
      for (std::size_t i = 0; i < length; ++i) {
        ASSERT_EQ(out[i], shared[from + i]);
        ASSERT_EQ(target[from + i], shared[from + i]);
        ASSERT_EQ(moved[3 + i], shared[from + i]);
      }
      ASSERT_EQ(out[length], std::byte{0});
      ASSERT_EQ(target[from + length], std::byte{0});
      ASSERT_EQ(moved[3 + length], std::byte{0});
    }
  }
}

TEST(Region, ElisionKeepsHeadAndTailOfEachEntry) {
  std::array<std::byte, 3 * 24> memory{};
  const Region region(0, 0, "dt", memory.data(), 3 * 1000, Elision{1000, 16, 8});
  EXPECT_EQ(region.at(0), memory.data());
  EXPECT_EQ(region.at(2000 + 15), memory.data() + 48 + 15);
  EXPECT_EQ(region.at(1999), memory.data() + 47);
  EXPECT_EQ(region.kept(1000, 100), 16u);
  EXPECT_EQ(region.kept(1016, 100), 0u);
  EXPECT_EQ(region.elided_run(1016), 976u);
  EXPECT_EQ(region.kept(1992, 100), 8u);
}

}  // namespace
}  // namespace loch::fabric
