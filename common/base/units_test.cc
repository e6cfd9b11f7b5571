// Tests that sizes and durations are parsed and formatted correctly, and that malformed ones are refused.
#include "common/base/units.h"

#include <gtest/gtest.h>

namespace loch {
namespace {

TEST(Units, SizesAreReadAndWritten) {
  EXPECT_EQ(parse_size("16K", "x").value(), 16384u);
  EXPECT_EQ(parse_size("512", "x").value(), 512u);
  EXPECT_EQ(parse_size("1.5K", "x").value(), 1536u);
  EXPECT_EQ(parse_size("20G", "x").value(), 20ull << 30);
  EXPECT_EQ(parse_size("4KiB", "x").value(), 4096u);
  EXPECT_EQ(format_size(16384), "16K");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(0), "0");
}

TEST(Units, BadSizesAreRefusedByName) {
  for (const char* text : {"", "K", "-1", "16Q", "1.0001", "16K16", "nan", "99999999999T"}) {
    const auto result = parse_size(text, "--value-size");
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(result.error().message.find("--value-size"), std::string::npos);
  }
}

TEST(Units, DurationsNeedTheirUnit) {
  EXPECT_EQ(parse_duration("50ms", "x").value(), 50'000'000);
  EXPECT_EQ(parse_duration("1.5us", "x").value(), 1'500);
  EXPECT_EQ(parse_duration("2m", "x").value(), 120'000'000'000);
  EXPECT_FALSE(parse_duration("10", "--duration").has_value());
  EXPECT_FALSE(parse_duration("ms", "--duration").has_value());
  EXPECT_EQ(format_duration(50'000'000), "50ms");
  EXPECT_EQ(format_duration(7), "7ns");
}

}  // namespace
}  // namespace loch
