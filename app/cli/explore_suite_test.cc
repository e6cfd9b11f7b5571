// Tests that the quick explorations of tests/explore/scenarios.txt give the results that the file expects,
// and that malformed lines are refused.
#include "app/cli/explore_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "app/cli/registry.h"

namespace loch::cli {
namespace {

using ::testing::HasSubstr;

const kv::Registry& registry() {
  static const kv::Registry all = make_registry();
  return all;
}

std::vector<SuiteEntry> entries() {
  auto read = read_suite(std::string(LOCH_SOURCE_DIR) + "/tests/explore/scenarios.txt", registry());
  LOCH_CHECK(read.has_value(), "{}", read.error().message);
  return std::move(*read);
}

TEST(ExploreSuite, EachQuickExplorationIsAsTheFileSays) {
  std::size_t complete = 0, found = 0;
  for (const SuiteEntry& entry : entries()) {
    if (!entry.is_quick) continue;
    const auto plan = plan_of(entry.options, registry());
    ASSERT_TRUE(plan.has_value()) << describe(entry.options) << ": " << plan.error().message;
    explore::Limits limits = entry.options.limits;
    limits.shortens = false;
    explore::Count count;
    const explore::Exploration all = explore::explore(*plan, judging_of(*plan), limits, count, nullptr);
    EXPECT_TRUE(is_as_expected(entry, all))
        << describe(entry.options) << ": " << verdict_of(all) << " after " << all.states << " states"
        << (all.violation ? ": " + all.violation->reasons.front() : "");
    ++(entry.expected == "found" ? found : complete);
  }
  EXPECT_GE(complete, 100U);
  EXPECT_GE(found, 20U);
}

// A client's background work sets its timer again and again while the answer to an ALLOC waits to be noticed.
// A timer that changes nothing makes no new state then either, so that the exploration ends.
TEST(ExploreSuite, ATimerBesideAMessageThatWaitsIsNoEvent) {
  const auto lines =
      parse_suite("quick complete race \"PUT K\" --set race.allocation=chunks --set race.chunk-blocks=4\n",
                  "f", registry());
  ASSERT_TRUE(lines.has_value()) << lines.error().message;
  const auto plan = plan_of(lines->front().options, registry());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(plan->deploy.server_workers, 1u);
  explore::Limits limits = lines->front().options.limits;
  limits.states = 200;
  explore::Count count;
  const explore::Exploration all = explore::explore(*plan, judging_of(*plan), limits, count, nullptr);
  EXPECT_TRUE(is_as_expected(lines->front(), all)) << verdict_of(all) << " after " << all.states << " states";
}

// For a line that says `found`, an exploration without a violation is not as expected, and one with a
// violation is.
TEST(ExploreSuite, AWrongExpectationIsSeen) {
  const auto wrong = parse_suite("quick found nessie \"GET K | GET K\"\n", "f", registry());
  ASSERT_TRUE(wrong.has_value()) << wrong.error().message;
  explore::Exploration all;
  EXPECT_FALSE(is_as_expected(wrong->front(), all));
  all.violation.emplace();
  EXPECT_TRUE(is_as_expected(wrong->front(), all));
}

TEST(ExploreSuite, EveryMutantNamedIsThereAndNoLineComesTwice) {
  std::set<std::string> seen;
  for (const SuiteEntry& entry : entries()) {
    EXPECT_TRUE(seen.insert(describe(entry.options)).second) << describe(entry.options);
    const auto module = find_protocol(registry(), entry.options.protocol);
    ASSERT_TRUE(module.has_value());
    if (!entry.options.mutant.empty()) {
      EXPECT_EQ(entry.expected, "found") << describe(entry.options);
      EXPECT_TRUE((*module)->mutants().contains(entry.options.mutant)) << entry.options.mutant;
    }
  }
}

TEST(ExploreSuite, BadLinesAreNamed) {
  const auto refused = [](const std::string& text) {
    const auto read = parse_suite(text, "suite.txt", registry());
    return read.has_value() ? std::string("accepted") : read.error().message;
  };
  EXPECT_THAT(refused(""), HasSubstr("suite.txt: expected at least one scenario"));
  EXPECT_THAT(refused("# nothing\n\nslow complete nessie \"GET K\"\n"),
              HasSubstr("suite.txt:3: \"slow\": expected quick or long"));
  EXPECT_THAT(refused("quick maybe nessie \"GET K\""),
              HasSubstr("suite.txt:1: \"maybe\": expected complete"));
  EXPECT_THAT(refused("quick complete nesie \"GET K\""), HasSubstr("nessie"));
  EXPECT_THAT(refused("quick complete nessie \"FROB K\""), HasSubstr("FROB"));
  EXPECT_THAT(refused("quick complete nessie \"GET K"), HasSubstr("quote"));
  EXPECT_THAT(refused("quick complete nessie"), HasSubstr("expected GROUP"));
  EXPECT_THAT(refused("quick complete nessie \"GET K\" --fial 1"), HasSubstr("--fial"));
  EXPECT_THAT(refused("quick complete nessie \"GET K\" --fail x"), HasSubstr("--fail"));
  EXPECT_THAT(refused("quick complete nessie \"GET K\" --json f"), HasSubstr("--json"));
}

}  // namespace
}  // namespace loch::cli
