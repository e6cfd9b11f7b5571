// Tests that a finding in the published Nessie is attributed to the fixes that make it disappear.
#include "app/fuzz/fixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "app/cli/registry.h"
#include "app/fuzz/campaign.h"

namespace loch::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

kv::Fix fix(const std::string& hole) { return {hole, hole + " goes wrong", "p.mend-" + hole}; }

TEST(Fixes, TheDescriptionNamesTheSmallestCures) {
  EXPECT_EQ(describe({.timings = 12, .found = 5, .cures = {}}), "");
  EXPECT_EQ(describe({.timings = 12, .found = 5, .cures = {{fix("H1")}}}),
            "H1: H1 goes wrong (with its fix 0 of 12 timings show it, without 5 of 12)");
  EXPECT_THAT(describe({.timings = 12, .found = 5, .cures = {{fix("H1")}, {fix("H2")}}}),
              StartsWith("H1 or H2: H1 goes wrong; H2 goes wrong (with either fix"));
  EXPECT_THAT(describe({.timings = 12, .found = 5, .cures = {{fix("H1"), fix("H2")}}}),
              StartsWith("H1 and H2: H1 goes wrong; H2 goes wrong (with both fixes"));
}

TEST(Fixes, AFindingOfThePublishedNessieIsCuredByTheFixThatIsNamed) {
  const kv::Registry registry = cli::make_registry();
  const auto module = cli::find_protocol(registry, "nessie");
  if (!module) GTEST_SKIP() << module.error().message;
  FuzzOptions options;
  options.settings = {{"nessie.variant", "published"}};
  std::uint32_t named = 0;
  for (std::uint64_t seed = 1; seed <= 200 && named < 3; ++seed) {
    FuzzFinding finding = fuzz_seed(seed, options, **module);
    if (finding.verdict != FuzzVerdict::violated) continue;
    explain(finding, options, **module);
    if (finding.fixed.empty()) continue;
    ++named;
    EXPECT_THAT(finding.cause, StartsWith("H"));
    EXPECT_THAT(finding.cause, HasSubstr("0 of "));
    FuzzOptions fixed = options;
    for (const std::string& option : finding.fixed) fixed.settings.emplace_back(option, "true");
    EXPECT_NE(fuzz_seed(seed, fixed, **module).verdict, finding.verdict) << rerun_line(finding, fixed);
  }
  EXPECT_EQ(named, 3U);
}

TEST(Fixes, BothHolesOfThePublishedNessieAreFoundEachByItsOwnFix) {
  const kv::Registry registry = cli::make_registry();
  const auto module = cli::find_protocol(registry, "nessie");
  if (!module) GTEST_SKIP() << module.error().message;
  FuzzOptions options;
  options.settings = {{"nessie.variant", "published"}};
  std::set<std::string> holes;
  for (std::uint64_t seed = 1; seed <= 600 && !(holes.contains("H1") && holes.contains("H2")); ++seed) {
    FuzzFinding finding = fuzz_seed(seed, options, **module);
    if (finding.verdict != FuzzVerdict::violated) continue;
    explain(finding, options, **module);
    holes.insert(finding.cause.substr(0, finding.cause.find(':')));
  }
  EXPECT_TRUE(holes.contains("H1"));
  EXPECT_TRUE(holes.contains("H2"));
}

// A campaign on a mutant ends with the first finding; a campaign on a variant with holes (known faults)
// continues, to find the other holes.
TEST(Fixes, ACampaignGoesOnForEachHoleButNotForAMutant) {
  const kv::Registry registry = cli::make_registry();
  const auto module = cli::find_protocol(registry, "nessie");
  if (!module) GTEST_SKIP() << module.error().message;
  FuzzOptions published;
  published.settings = {{"nessie.variant", "published"}};
  published.seeds = 100;
  published.jobs = 1;
  Campaign all(published, **module);
  all.run();
  EXPECT_EQ(all.done(), 100U);
  EXPECT_GT(all.findings().size(), 1U);
  FuzzOptions mutant = published;
  mutant.mutant = "destructive-put";
  Campaign first(mutant, **module);
  first.run();
  EXPECT_LT(first.done(), 100U);
  EXPECT_EQ(first.findings().size(), 1U);
}

// A variant without holes (known faults) has no fixes to try.
TEST(Fixes, NothingIsTriedWithoutFixes) {
  const kv::Registry registry = cli::make_registry();
  const auto module = cli::find_protocol(registry, "nessie");
  if (!module) GTEST_SKIP() << module.error().message;
  FuzzFinding finding;
  finding.verdict = FuzzVerdict::violated;
  EXPECT_EQ(try_fixes(finding, FuzzOptions{}, **module).timings, 0U);
}

}  // namespace
}  // namespace loch::fuzz
