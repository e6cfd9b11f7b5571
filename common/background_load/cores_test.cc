// Tests lists of cores, and which cores background processes get.
#include "common/background_load/cores.h"

#include <gmock/gmock.h>

namespace loch::background {
namespace {

using Cores = std::vector<std::uint32_t>;

TEST(Cores, ListsAreReadAndWrittenAsTheKernelDoes) {
  EXPECT_EQ(parse_cores("0-3,6", "--cores").value(), (Cores{0, 1, 2, 3, 6}));
  EXPECT_EQ(parse_cores("5,1,1", "--cores").value(), (Cores{1, 5}));
  EXPECT_EQ(format_cores({0, 1, 2, 3, 6}), "0-3,6");
  EXPECT_EQ(format_cores({}), "");
  for (const char* bad : {"", "a", "3-1", "1,", "-1", "1-", "99999", "1;2"}) {
    const auto cores = parse_cores(bad, "--cores");
    ASSERT_FALSE(cores.has_value()) << bad;
    EXPECT_THAT(cores.error().message, testing::StartsWith("--cores: ")) << bad;
    EXPECT_EQ(cores.error().code, ErrorCode::invalid_argument);
  }
}

TEST(Cores, BackgroundWorkersShareOrKeepAway) {
  EXPECT_EQ(place_background_load("none", "--pin", {0, 1}, {0, 1, 2}).value(), Cores{});
  EXPECT_EQ(place_background_load("shared", "--pin", {0, 1}, {0, 1, 2}).value(), (Cores{0, 1}));
  EXPECT_EQ(place_background_load("separate", "--pin", {0, 1}, {0, 1, 2, 5}).value(), (Cores{2, 5}));
  const auto none_left = place_background_load("separate", "--hog-pin", {0, 1}, {0, 1});
  ASSERT_FALSE(none_left.has_value());
  EXPECT_THAT(none_left.error().message, testing::HasSubstr("--hog-pin separate: no core is left"));
}

}  // namespace
}  // namespace loch::background
