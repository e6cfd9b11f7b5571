// Tests the three forms of `loch explore`: accepted flags, and the messages about refused ones.
#include "app/cli/explore_flags.h"

#include <gtest/gtest.h>

namespace loch::cli {
namespace {

using ExploreWords = std::vector<std::string>;

std::string refusal_of(const ExploreWords& words) {
  const auto flags = parse_explore_flags(words);
  return flags ? "accepted" : flags.error().message;
}

TEST(ExploreFlags, OneScenarioHasTheDefaultsOfItsTypes) {
  const auto plain = parse_explore({"nessie"});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(describe(*plain), "nessie \"PUT K | DELETE K; GET K\"");
  EXPECT_EQ(plain->limits.states, 5'000'000U);
  EXPECT_EQ(plain->limits.time, 0);
  EXPECT_TRUE(plain->limits.reduces && plain->limits.saves && !plain->limits.keeps_going);
  EXPECT_FALSE(plain->has_scenario || plain->bounds.switches);
}

TEST(ExploreFlags, OneScenarioIsWrittenAsItIsRead) {
  const std::string line =
      "nessie \"GET K\" --set nessie.cache=on --mutant m --before \"GET L\" --keys \"K X\" --share 1 "
      "--absent "
      "--fail 1 --cut 2 --kill 3 --clock 4 --late 5 --torn 6 --value-size 64 --window 2 --switches 0";
  const auto all = parse_explore({"nessie",
                                  "GET K",
                                  "--set",
                                  "nessie.cache=on",
                                  "--mutant",
                                  "m",
                                  "--before",
                                  "GET L",
                                  "--keys",
                                  "K X",
                                  "--share",
                                  "1",
                                  "--absent",
                                  "--fail",
                                  "1",
                                  "--cut=2",
                                  "--kill",
                                  "3",
                                  "--clock",
                                  "4",
                                  "--late",
                                  "5",
                                  "--torn",
                                  "6",
                                  "--value-size",
                                  "64",
                                  "--window",
                                  "2",
                                  "--switches",
                                  "0",
                                  "--no-reduction",
                                  "--no-snapshots",
                                  "--keep-going",
                                  "--states",
                                  "7",
                                  "--time",
                                  "2s"});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(describe(*all), line);
  EXPECT_FALSE(all->limits.reduces || all->limits.saves);
  EXPECT_TRUE(all->limits.keeps_going);
  EXPECT_EQ(all->limits.states, 7U);
  EXPECT_EQ(all->limits.time, 2'000'000'000);
}

TEST(ExploreFlags, AFamilyTakesTheFlagsOfItsScenarios) {
  const auto family = parse_explore_flags({"--family", "pairs", "nessie", "--every", "5", "--fail", "1"});
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_TRUE(family->has_family());
  EXPECT_EQ(family->every, 5U);
  EXPECT_EQ(family->starts, 3U);
  EXPECT_EQ(family->shown, 3U);
  EXPECT_EQ(family->each.bounds.fails, 1U);
  EXPECT_EQ(family->each.keys, "K X");
  EXPECT_EQ(family->each.share, 1U);
  EXPECT_EQ(refusal_of({"--family", "pairs", "nessie", "GET K"}),
            "--family: \"GET K\": a family has its own scenarios");
  EXPECT_EQ(refusal_of({"nessie", "--every", "5"}), "--every: goes with --family");
  EXPECT_EQ(refusal_of({"--family", "pairs", "nessie", "--json", "f"}), "--json: a family writes none");
}

TEST(ExploreFlags, ASuiteTakesFlagsAlone) {
  const auto suite = parse_explore_flags({"--suite", "--quick", "--protocol", "pilaf"});
  ASSERT_TRUE(suite) << suite.error().message;
  EXPECT_TRUE(suite->has_suite() && suite->is_quick);
  EXPECT_EQ(suite->suite, "");
  EXPECT_EQ(suite->protocol, "pilaf");
  const auto mutants = parse_explore_flags({"--mutants", "nessie", "--suite=f", "--states", "9"});
  ASSERT_TRUE(mutants) << mutants.error().message;
  EXPECT_EQ(mutants->mutants, "nessie");
  EXPECT_EQ(mutants->suite, "f");
  EXPECT_TRUE(mutants->given.has("states") && !mutants->given.has("time"));
  EXPECT_EQ(refusal_of({"--suite", "f", "nessie"}), "\"nessie\": a suite takes flags alone");
  EXPECT_EQ(refusal_of({"--suite", "--fail", "1"}), "--fail: not with --suite or --mutants");
  EXPECT_EQ(refusal_of({"nessie", "--quick"}), "--quick: goes with --suite or --mutants");
  EXPECT_EQ(parse_explore({"--suite"}).error().message, "--suite, --mutants, --family: not of one scenario");
}

}  // namespace
}  // namespace loch::cli
