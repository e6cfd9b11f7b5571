// Tests the number of spare entries: it grows with the duration of the run or with the time before an entry
// may be reused, whichever is shorter, up to the limits.
#include "common/kv/spare.h"

#include <gtest/gtest.h>

namespace loch::kv {
namespace {

DeployConfig load_of(Nanos load_time, std::uint32_t value_size) {
  DeployConfig config;
  config.load_time = load_time;
  config.value_size = value_size;
  return config;
}
constexpr SpareNeed plenty{.lanes = 10,
                           .reuse_after = 1'000'000'000,
                           .entry_bytes = 100,
                           .whole_bytes = 100,
                           .limit_bytes = 1u << 30};

TEST(SpareForLoad, IsWhatTheFastestPutsReplaceMeanwhile) {
  // 10 concurrent operations of at least 2 us each make 5 operations a microsecond, 5,000 in a load of 1 ms
  EXPECT_EQ(spare_for_load(load_of(1'000'000, 0), plenty), 5'000);
  SpareNeed rests_shortly = plenty;
  rests_shortly.reuse_after = 100'000;
  EXPECT_EQ(spare_for_load(load_of(1'000'000, 0), rests_shortly), 500);
  // sending 25,000 bytes at 100 Gb/s adds 2 us to each operation, so half as many operations end
  EXPECT_EQ(spare_for_load(load_of(1'000'000, 25'000), plenty), 2'500);
  SpareNeed slow_table = plenty;
  slow_table.puts_per_ns_max = 1.0 / 1'000;
  EXPECT_EQ(spare_for_load(load_of(1'000'000, 0), slow_table), 1'000);
}

TEST(SpareForLoad, IsNoneWhereNobodySaysHowLongOrNothingRests) {
  EXPECT_EQ(spare_for_load(load_of(0, 1024), plenty), 0);
  SpareNeed at_once = plenty;
  at_once.reuse_after = 0;
  EXPECT_EQ(spare_for_load(load_of(1'000'000, 1024), at_once), 0);
}

TEST(SpareForLoad, StaysWithinItsMemory) {
  SpareNeed narrow = plenty;
  narrow.limit_bytes = 12'345;
  EXPECT_EQ(spare_for_load(load_of(fabric::forever, 0), narrow), 123);
}

// Up to 1 GiB of data, a simulation that elides values (stores only a part of each) has as many spare entries
// as one that stores whole values.
TEST(SpareForLoad, CountsStoredBytesOnlyWhereDataAreMany) {
  SpareNeed elided = plenty;
  elided.limit_bytes = 100'000;
  elided.whole_bytes = 1'000;
  DeployConfig config = load_of(fabric::forever, 900);
  config.key_size = 124;  // 1 KiB a record
  config.max_keys = 1 << 20;
  EXPECT_EQ(spare_for_load(config, elided), 100);
  ++config.max_keys;
  EXPECT_EQ(spare_for_load(config, elided), 1'000);
}

}  // namespace
}  // namespace loch::kv
