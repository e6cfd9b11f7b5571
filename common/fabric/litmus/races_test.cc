// Tests which outcomes of the litmus suite's tests (races) a device's capabilities rule out, and the verdict
// on what was counted.
#include "common/fabric/litmus/races.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace loch::fabric::litmus {
namespace {

using Block = std::array<std::byte, block_bytes>;

Block block_of(std::uint64_t number) {
  Block block;
  for (std::uint32_t at = 0; at < block_bytes; at += 8) {
    const std::uint64_t word = block_word(number);
    std::memcpy(&block[at], &word, 8);
  }
  return block;
}

// A block that was read while its second value replaced its first: bytes from `at` on have the second.
Block torn_at(std::uint32_t at) {
  Block block = block_of(1);
  const Block after = block_of(2);
  std::copy(after.begin() + at, after.end(), block.begin() + at);
  return block;
}

Row judged(Race race, std::uint64_t tries, std::uint64_t seen, const Capabilities& can) {
  Seen counts;
  counts.tries = tries;
  counts.seen = seen;
  return judge(race, counts, can);
}

TEST(Races, ABlockOfOneValueIsNotTorn) {
  Seen seen;
  for (const std::uint64_t number : {0u, 1u, 250u, 251u, 100'000u}) count_torn(block_of(number), seen);
  EXPECT_EQ(seen.tries, 5u);
  EXPECT_EQ(seen.torn, (std::array<std::uint64_t, 9>{}));
}

TEST(Races, ATearIsCountedOfEveryPartThatHasIt) {
  Seen seen;
  count_torn(torn_at(64), seen);
  EXPECT_EQ(seen.torn, (std::array<std::uint64_t, 9>{0, 0, 0, 0, 0, 0, 1, 1, 1}));
  count_torn(torn_at(268), seen);
  EXPECT_EQ(seen.torn, (std::array<std::uint64_t, 9>{0, 0, 1, 1, 1, 1, 2, 2, 2}));
  count_torn(torn_at(511), seen);
  EXPECT_EQ(seen.torn, (std::array<std::uint64_t, 9>{1, 1, 2, 2, 2, 2, 3, 3, 3}));
}

TEST(Races, TheUnitIsTheLongestPartThatWasNeverTorn) {
  const Capabilities can{.untorn_bytes = 64};
  Seen counts{.tries = 10};
  EXPECT_EQ(judge(Race::read_write, counts, can).unit, 512u);
  counts.torn = {0, 0, 0, 0, 0, 3, 5, 6, 7};
  const Row row = judge(Race::read_write, counts, can);
  EXPECT_EQ((std::pair{row.unit, row.seen}), (std::pair{32u, 3ul}));
  EXPECT_EQ(row.verdict, Verdict::violated);
  counts.torn[5] = 0;
  EXPECT_EQ(judge(Race::read_write, counts, can).verdict, Verdict::as_claimed);
}

TEST(Races, AgainstTheCpuOnlyItsWordsAreClaimed) {
  Seen counts{.tries = 10};
  counts.torn = {0, 0, 0, 4, 4, 4, 4, 4, 4};
  EXPECT_EQ(judge(Race::read_cpu, counts, {.untorn_bytes = 64}).verdict, Verdict::as_claimed);
  counts.torn[2] = 1;
  EXPECT_EQ(judge(Race::read_cpu, counts, {.untorn_bytes = 64}).verdict, Verdict::violated);
}

TEST(Races, WhatIsForbiddenFollowsTheCapabilities) {
  const auto is_forbidden = [](Race race, const Capabilities& can) {
    return claim_of(race, can).is_forbidden;
  };
  EXPECT_TRUE(is_forbidden(Race::write_write, {.in_order_placement = true}));
  EXPECT_FALSE(is_forbidden(Race::write_write, {.in_order_placement = false}));
  for (const Order order : {Order::device, Order::waits, Order::none}) {
    EXPECT_EQ(is_forbidden(Race::write_read, {.write_then_read = order}), order != Order::none);
    EXPECT_EQ(is_forbidden(Race::write_atomic, {.write_then_atomic = order}), order != Order::none);
  }
  EXPECT_TRUE(is_forbidden(Race::cas_cpu, {.atomic_scope = AtomicScope::global}));
  EXPECT_FALSE(is_forbidden(Race::cas_cpu, {.atomic_scope = AtomicScope::nic}));
  for (const Race each : {Race::write_send, Race::cas_nic, Race::late}) EXPECT_TRUE(is_forbidden(each, {}));
  for (const Race each : {Race::early, Race::at_completion}) EXPECT_FALSE(is_forbidden(each, {}));
}

TEST(Races, ADeviceThatLacksSomethingIsNotJudged) {
  const Capabilities bare{.receives_connected = false, .atomic_scope = AtomicScope::none};
  for (const Race race : {Race::write_send, Race::write_atomic, Race::cas_cpu, Race::cas_nic}) {
    const Row row = judged(race, 10, 10, bare);
    EXPECT_EQ(row.verdict, Verdict::not_tried) << name(race);
    EXPECT_FALSE(row.claim.missing.empty()) << name(race);
  }
  EXPECT_EQ(judged(Race::late, 10, 10, bare).verdict, Verdict::violated);
  EXPECT_EQ(judged(Race::late, 10, 10, {.rc = false}).verdict, Verdict::not_tried);
}

TEST(Races, TheVerdictComparesTheClaimWithWhatWasSeen) {
  EXPECT_EQ(judged(Race::late, 100, 0, {}).verdict, Verdict::as_claimed);
  EXPECT_EQ(judged(Race::late, 100, 1, {}).verdict, Verdict::violated);
  EXPECT_EQ(judged(Race::early, 100, 0, {}).verdict, Verdict::not_seen);
  EXPECT_EQ(judged(Race::early, 100, 1, {}).verdict, Verdict::as_claimed);
  EXPECT_EQ(judged(Race::late, 0, 0, {}).verdict, Verdict::not_tried);
}

TEST(Races, TheTableHasALineForEachRow) {
  const std::vector<Row> rows = {judged(Race::late, 100, 3, {}), judged(Race::cas_nic, 9, 0, {})};
  const std::string table = to_table(rows);
  EXPECT_EQ(std::ranges::count(table, '\n'), 3);
  EXPECT_NE(table.find("violated"), std::string::npos);
  EXPECT_NE(table.find(outcome(Race::cas_nic)), std::string::npos);
}

TEST(Races, NamesDiffer) {
  std::vector<std::string> names = race_names();
  ASSERT_EQ(names.size(), races_count);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace loch::fabric::litmus
