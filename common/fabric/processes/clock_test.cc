// Tests the clock records that processes exchange to align their clocks.
#include "common/fabric/processes/clock.h"

#include <gtest/gtest.h>

namespace loch::fabric::processes {
namespace {

TEST(Clock, RecordsGoThereAndBack) {
  const ClockRecord record{"0123-4567", -5};
  const auto back = parse_clock(to_text(record));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(*back, record);
}

TEST(Clock, DamagedRecordsAreRefused) {
  for (const std::string& text :
       {std::string(), std::string("12"), std::string("x boot"), std::string("1.5 boot"),
        std::string("9223372036854775807 boot"), "1 " + std::string(65, 'a')})
    EXPECT_FALSE(parse_clock(text).has_value()) << text;
}

}  // namespace
}  // namespace loch::fabric::processes
