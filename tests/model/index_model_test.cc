// What the model must find and must not find. The numbers of violating scenarios are those of the
// table in README.md; model_sweep --full prints all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "tests/model/families.h"
#include "tests/model/scenarios.h"

namespace loch::model {
namespace {

using ::testing::HasSubstr;

Exploration run(const std::string& variant_name, const std::string& scenario_name,
                const Limits& limits = {}) {
  return explore(variant(variant_name), scenario(scenario_name), limits);
}

Rules changed(const std::string& base, void (*change)(Rules*)) {
  Rules rules = variant(base);
  change(&rules);
  return rules;
}

bool finds(const std::string& variant_name, const std::string& scenario_name) {
  return run(variant_name, scenario_name).violation.times > 0;
}

const std::vector<std::string> hardened_variants = {"hardened", "hardened-cas", "hardened-fast",
                                                    "hardened-fast-cas"};
const std::vector<std::string> lease_safe = {"hardened-cas", "hardened-fast-cas"};

// ---- The published holes, each by its scenario.

TEST(PublishedHoles, H1DestructiveBeforeCommit) {
  for (const char* const s : {"T1", "T2", "T4", "T5"}) EXPECT_TRUE(finds("published-2017", s)) << s;
  const std::string trace = run("published-2017", "T1").violation.trace;
  EXPECT_THAT(trace, HasSubstr("C0: CAS s2: d1(K=v1) -> EMPTY ok"));  // the old value goes first
  EXPECT_THAT(trace, HasSubstr("C0: CAS s0: d2(K=v11, pending) -> EMPTY ok; => PUT(K): CONCURRENT"));
  EXPECT_THAT(trace, HasSubstr("=> GET(K): not_found"));
}

TEST(PublishedHoles, H2EmptyWordsRepeat) {
  for (const char* const s : {"S6", "S7", "T8"}) EXPECT_TRUE(finds("J17", s)) << s;
  EXPECT_FALSE(finds("J17-unique-empty", "S6"));
  EXPECT_TRUE(finds("J17-verify-all", "S6"));  // a full reverse pass does not help
  EXPECT_THAT(run("J17", "S6").violation.trace, HasSubstr("=> GET(K): not_found"));
}

TEST(PublishedHoles, H3CleanupAfterAnAbort) {
  EXPECT_TRUE(finds("J17-cleanup-to-empty", "S9"));
  EXPECT_FALSE(finds("J17", "S9"));
  const Sweep none = sweep(variant("J17-no-cleanup"), "3w");
  EXPECT_EQ(none.stuck_get, 334U);
  EXPECT_EQ(none.stuck_put, 482U);
}

TEST(PublishedHoles, H4SkippedDuplicateRisesAgain) {
  EXPECT_TRUE(finds("J17-skip-pending", "S10"));
  EXPECT_FALSE(finds("J17", "S10"));
}

TEST(PublishedHoles, H5BothCopiesGo) {
  const Exploration e = run("published-2017", "T5");
  EXPECT_GT(e.violation.times, 0U);
  for (const std::string& v : hardened_variants) EXPECT_FALSE(finds(v, "T5")) << v;
}

TEST(PublishedHoles, H6PreviousInAMigrateCopy) {
  for (const char* const s : {"S10", "S11"}) {
    EXPECT_TRUE(finds("J17-copy-has-previous", s)) << s;
    EXPECT_FALSE(finds("J17", s)) << s;
  }
}

TEST(PublishedHoles, H7ReversePassAfterAnInlineMigrate) {
  EXPECT_GT(run("published-2017", "I1").duplicate.times, 0U);
  const Rules all = changed("published-2017", [](Rules* r) { r->when_full = WhenFull::migrate_verify_all; });
  EXPECT_EQ(explore(all, scenario("I1"), {}).duplicate.times, 0U);
  for (const std::string& v : hardened_variants) EXPECT_EQ(run(v, "I1").duplicate.times, 0U) << v;
}

TEST(PublishedHoles, H8FullReversePassIsWorse) {
  EXPECT_TRUE(finds("J17-verify-all", "S2"));
  EXPECT_FALSE(finds("J17", "S2"));
}

TEST(PublishedHoles, H9LocalFlipUnderALeaseBreaker) {
  for (const char* const s : {"L1", "L2"}) {
    EXPECT_TRUE(finds("hardened", s)) << s;
    for (const std::string& v : lease_safe) EXPECT_FALSE(finds(v, s)) << v << " " << s;
  }
}

TEST(PublishedHoles, H10DeleteThatLostItsTombstone) {
  EXPECT_TRUE(finds("published-2017", "L3"));
  EXPECT_FALSE(finds("J17-delete-checks", "L3"));
  // The 2015 DELETE: misses a moving entry, or takes effect twice.
  EXPECT_TRUE(finds("T15", "S10"));
  EXPECT_TRUE(finds("T15", "S4"));
}

TEST(PublishedHoles, H11Overwriting2015) {
  const Sweep s = sweep(variant("T15"), "3w");
  EXPECT_EQ(s.violating, 160U);
  EXPECT_EQ(s.stuck_get, 257U);
}

TEST(PublishedHoles, H12ACrashLocksAKey) {
  EXPECT_GT(run("published-2017", "C1").stuck_get.times, 0U);
  EXPECT_GT(run("published-2017", "C2").stuck_put.times, 0U);
  EXPECT_EQ(run("published-2017", "C2").stuck_get.times, 0U);  // served by the previous version
  EXPECT_GT(run("published-2017", "C3").stuck_put.times, 0U);
  EXPECT_GT(run("published-2017", "C5").stuck_get.times, 0U);
}

TEST(PublishedHoles, H13VerifyingOnlyTheKeysEntries) {
  EXPECT_EQ(sweep(variant("LOOSE"), "3w").violating, 1U);
}

// ---- The hardened variant: nothing, anywhere.

class Hardened : public ::testing::TestWithParam<std::string> {};

TEST_P(Hardened, NoScenarioViolates) {
  for (const Scenario& s : all_scenarios()) {
    const bool breaks_leases = s.name[0] == 'L';
    const bool flips = !variant(GetParam()).commit_by_cas;
    if (breaks_leases && flips) continue;  // H9: leases need commit by CAS
    const Exploration e = explore(variant(GetParam()), s, {});
    EXPECT_EQ(e.violation.times, 0U) << s.name << "\n" << e.violation.trace;
    EXPECT_EQ(e.duplicate.times, 0U) << s.name << "\n" << e.duplicate.trace;
    EXPECT_EQ(e.recycled_but_linked.times, 0U) << s.name << "\n" << e.recycled_but_linked.trace;
    EXPECT_FALSE(e.cut_off);
    if (s.may_crash != 0) continue;  // what a dead client held stays until it is scrubbed
    EXPECT_EQ(e.stuck_get.times, 0U) << s.name << "\n" << e.stuck_get.trace;
    EXPECT_EQ(e.stuck_put.times, 0U) << s.name << "\n" << e.stuck_put.trace;
    EXPECT_EQ(e.leak.times, 0U) << s.name << "\n" << e.leak.trace;
  }
}

void expect_clean(const Sweep& s, bool also_live) {
  EXPECT_EQ(s.violating, 0U) << s.shortest;
  EXPECT_EQ(s.duplicate, 0U);
  EXPECT_EQ(s.recycled_but_linked, 0U);
  EXPECT_EQ(s.cut_off, 0U);
  if (!also_live) return;
  EXPECT_EQ(s.stuck_get, 0U);
  EXPECT_EQ(s.stuck_put, 0U);
}

TEST_P(Hardened, ThreeWritersInFull) {
  const Sweep s = sweep(variant(GetParam()), "3w");
  EXPECT_EQ(s.scenarios, 2'548U);
  expect_clean(s, true);
  EXPECT_EQ(s.leak, 0U);
}

TEST_P(Hardened, FencedScrubLeavesNothingStuck) {
  expect_clean(sweep(variant(GetParam()), "scrub", 11, 1), true);
  expect_clean(sweep(variant(GetParam()), "scrubon", 37, 2), true);
}

TEST_P(Hardened, ASampleOfTheLargerFamilies) {
  for (const char* const family : {"21", "22", "main2", "main3"}) {
    expect_clean(sweep(variant(GetParam()), family, 149, 3), true);
  }
  expect_clean(sweep(variant(GetParam()), "crash", 23, 4), false);
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char c : info.param) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) name.push_back(c);
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Index, Hardened, ::testing::ValuesIn(hardened_variants), test_name);

TEST(Leases, CommitByCasIsSafe) {
  for (const std::string& v : lease_safe) expect_clean(sweep(variant(v), "brk", 31, 5), false);
  EXPECT_GT(sweep(variant("hardened"), "brk", 31, 5).violating, 0U);
}

TEST(Scrub, TheObviousRuleForCopiesIsWrong) {
  // "The source changed, so complete the copy" raises deleted values; the tag tells whose change it was.
  EXPECT_GT(sweep(variant("FIX-B"), "scrub", 11, 1).violating, 0U);
  EXPECT_EQ(sweep(variant("TAG-B"), "scrub", 11, 1).violating, 0U);
}

// ---- In step with the code: each known-bad variant of its rules is found.

class CodeMutant : public ::testing::TestWithParam<std::string> {};

TEST_P(CodeMutant, IsFound) {
  nessie::Rules code = nessie::hardened();
  ASSERT_TRUE(nessie::apply_mutant(GetParam(), code));
  const Rules rules = from_code(GetParam(), code);
  bool found = false;
  for (const Scenario& s : all_scenarios()) {
    if (s.name[0] == 'L' || s.name[0] == 'C') continue;
    const Exploration e = explore(rules, s, {.stop_at_violation = true});
    found = found || e.violation.times > 0;
  }
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Index, CodeMutant,
                         ::testing::Values("no-reverse-pass", "empty-not-unique", "destructive-put",
                                           "remove-before-commit", "rollback-to-empty",
                                           "migrate-copies-prev"),
                         test_name);

// ---- The model itself.

TEST(Families, HaveThePublishedSizes) {
  const std::vector<std::pair<std::string, int>> sizes = {
      {"main2", 21'024}, {"main3", 20'592}, {"3w", 2'548},    {"21", 14'580},     {"22", 16'380},
      {"crash", 6'552},  {"brk", 12'096},   {"scrub", 6'552}, {"scrubon", 12'096}};
  EXPECT_EQ(sizes.size(), all_families().size());
  for (const auto& [family, size] : sizes) {
    int count = 0;
    for_each_scenario(family, [&](const Scenario&) { return ++count > 0; });
    EXPECT_EQ(count, size) << family;
  }
}

TEST(Table, ThreeWritersColumn) {
  const std::vector<std::pair<std::string, std::uint64_t>> column = {{"J17", 222},
                                                                     {"J17-no-cleanup", 12},
                                                                     {"J17-cleanup-to-empty", 396},
                                                                     {"J17-skip-pending", 253},
                                                                     {"FIX-A", 8},
                                                                     {"FIX-B", 0},
                                                                     {"J17-unique-empty-abort", 0},
                                                                     {"J17-unique-empty", 211},
                                                                     {"FIX-C", 0},
                                                                     {"FIX-B-cas", 0},
                                                                     {"FIX-D", 0},
                                                                     {"TAG-D", 0}};
  for (const auto& [name, violating] : column)
    EXPECT_EQ(sweep(variant(name), "3w").violating, violating) << name;
}

TEST(Aborts, MayBeJudgedWeakly) {
  // T2's DELETE aborts after it has destroyed the old entry: wrong if an abort means "no effect",
  // explained if it may take effect later.
  EXPECT_GT(run("J17", "T2").violation.times, 0U);
  EXPECT_EQ(run("J17", "T2", {.aborts = Aborts::may_take_effect_later}).violation.times, 0U);
  // T1's PUT loses the value: no later effect explains a GET that finds nothing.
  EXPECT_GT(run("J17", "T1", {.aborts = Aborts::may_take_effect_later}).violation.times, 0U);
}

TEST(Exploration, StopsAtItsLimit) {
  EXPECT_TRUE(run("J17", "S2", {.states = 100}).cut_off);
  EXPECT_FALSE(run("J17", "S2").cut_off);
}

}  // namespace
}  // namespace loch::model
