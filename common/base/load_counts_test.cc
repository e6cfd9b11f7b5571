// Tests that counters of one load after another are told apart.
#include "common/base/load_counts.h"

#include <gtest/gtest.h>

#include <array>

namespace loch {
namespace {

LoadCounts::Counters of_load(const LoadCounts& counts, LoadCounts::Counters now) {
  constexpr std::array<std::string_view, 1> levels{"bytes"};
  counts.take_off_earlier(now, levels);
  return now;
}

TEST(LoadCounts, EachLoadCountsAsIfItWereTheOnlyOne) {
  LoadCounts counts;
  counts.begin_load({{"inserts", 50}, {"bytes", 7}});  // of the preload
  EXPECT_EQ(of_load(counts, {{"inserts", 53}, {"bytes", 9}, {"reads", 10}}),
            (LoadCounts::Counters{{"inserts", 53}, {"bytes", 9}, {"reads", 10}}));
  counts.begin_load({{"inserts", 53}, {"bytes", 9}, {"reads", 10}});
  EXPECT_EQ(of_load(counts, {{"inserts", 53}, {"bytes", 8}, {"reads", 14}, {"late", 1}}),
            (LoadCounts::Counters{{"inserts", 50}, {"bytes", 8}, {"reads", 4}, {"late", 1}}));
  counts.begin_load({{"inserts", 55}, {"bytes", 8}, {"reads", 15}, {"late", 1}});  // 2 and 1 more meanwhile
  EXPECT_EQ(of_load(counts, {{"inserts", 56}, {"bytes", 8}, {"reads", 15}, {"late", 4}}),
            (LoadCounts::Counters{{"inserts", 51}, {"bytes", 8}, {"reads", 0}, {"late", 3}}));
}

}  // namespace
}  // namespace loch
