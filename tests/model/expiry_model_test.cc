// What each rule about expiry, clocks, the cache and the word does, one row a rule.
#include "tests/model/expiry_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nessie/rules.h"

namespace loch::model {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string name;
  ExpiryRules rules;
  bool wrong_incarnation = false;
  bool stale_hit = false;
  bool aba = false;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Expiry : public ::testing::TestWithParam<Row> {};

TEST_P(Expiry, FindsWhatTheTableSays) {
  const Row& row = GetParam();
  const ExpiryResult result = explore_expiry(row.rules);
  RecordProperty("states", static_cast<int>(result.states));
  EXPECT_GT(result.states, 1'000U);
  EXPECT_EQ(!result.wrong_incarnation.empty(), row.wrong_incarnation) << result.wrong_incarnation;
  EXPECT_EQ(!result.stale_hit.empty(), row.stale_hit) << result.stale_hit;
  EXPECT_EQ(!result.aba.empty(), row.aba) << result.aba;
}

const std::vector<Row> rows = {
    {"no_check", {.check = AgeCheck::none}, true, false, true},
    {"check_before_the_entry", {.check = AgeCheck::before_entry}, true, false, true},
    {"check_after_equality_allowed", {}, true, false, true},
    {"check_after_strict", {.margin = 1}, false, false, true},
    {"owner_ahead_no_margin", {.margin = 1, .owner_ahead = 1}, true, false, true},
    {"owner_ahead_with_margin", {.margin = 2, .owner_ahead = 1}, false, false, true},
    {"unlinker_behind_with_margin", {.margin = 2, .unlinker_ahead = -1}, false, false, true},
    {"flag_before_timestamp", {.margin = 1, .torn_mark = true}, true, false, true},
    {"version_that_wraps", {.margin = 1, .version_bits = 2, .ticks = 13}, false, false, true},
    {"version_wide_enough", {.margin = 1, .version_bits = 5}, false, false, false},
    {"generation_that_wraps", {.margin = 1, .generation_bits = 1, .ticks = 13}, false, false, true},
    {"generation_wide_enough", {.margin = 1, .generation_bits = 4}, false, false, false},
    {"cache_from_index_read",
     {.margin = 1, .cache = CacheRule::until_index_read_plus_e},
     false,
     false,
     false},
    {"cache_extended_per_hit", {.margin = 1, .cache = CacheRule::extend_by_e}, false, true, false},
    {"cache_equality_allowed", {.cache = CacheRule::until_index_read_plus_e}, true, false, false},
};

INSTANTIATE_TEST_SUITE_P(Table, Expiry, ::testing::ValuesIn(rows),
                         [](const ::testing::TestParamInfo<Row>& info) { return info.param.name; });

// H16: the expiry period cannot fence a CAS.
TEST(Expiry, TheTraceOfAbaIsReadable) {
  const std::string trace = explore_expiry({.margin = 1}).aba;
  EXPECT_THAT(trace, HasSubstr("slow PUT: is in time, posts its CAS"));
  EXPECT_THAT(trace, HasSubstr("slow PUT: CAS executes and succeeds; it expects incarnation 0, linked is 2"));
}

// The code's rules say the same: expiry honoured strictly, age checked, generations in the word.
TEST(Expiry, TheHardenedRulesAreTheSafeRows) {
  constexpr nessie::Rules code = nessie::hardened();
  const ExpiryRules rules{.margin = code.honours_expiry ? 1 : -2,
                          .check = code.checks_time ? AgeCheck::after_entry : AgeCheck::none,
                          .generation_bits = code.has_generation ? 4 : 0};
  const ExpiryResult result = explore_expiry(rules);
  EXPECT_EQ(result.wrong_incarnation, "");
  EXPECT_EQ(result.aba, "");
}

}  // namespace
}  // namespace loch::model
