// Explores small scenarios of real protocols in every interleaving: hardened protocols show no violation,
// holes (known faults) of published protocols and known-bad variants are found, and sleep sets (a
// partial-order reduction) do not change the set of states.
#include <gtest/gtest.h>

#include "app/explore/explorer.h"
#include "herd_em/module.h"
#include "nessie/module.h"
#include "nessie_hy/module.h"
#include "nessie_sd/module.h"
#include "pilaf_em/module.h"

namespace loch::explore {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

const kv::Module& module_of(const std::string& name) {
  static const auto all = [] {
    std::vector<std::unique_ptr<kv::Module>> modules;
    nessie::add_modules(modules);
    nessie_sd::add_modules(modules);
    nessie_hy::add_modules(modules);
    pilaf::add_modules(modules);
    herd::add_modules(modules);
    return modules;
  }();
  for (const auto& module : all) {
    if (module->name() == name) return *module;
  }
  LOCH_CHECK(false, "no protocol {}", name);
}

struct Case {
  std::string protocol, scenario;
  Settings settings = {};
  Bounds bounds = {};
  std::string mutant = {};
  bool is_absent = false;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.protocol << " \"" << c.scenario << "\"" << (c.mutant.empty() ? "" : " mutant ") << c.mutant;
}

Exploration explored(const Case& wanted, bool reduces = true, bool saves = true) {
  const kv::Module& module = module_of(wanted.protocol);
  auto scenario = parse_scenario(wanted.scenario);
  LOCH_CHECK(scenario.has_value(), "{}", scenario.error().message);
  const auto plan = make_plan({.module = &module,
                               .scenario = std::move(*scenario),
                               .settings = wanted.settings,
                               .mutant = wanted.mutant,
                               .bounds = wanted.bounds,
                               .is_absent = wanted.is_absent});
  LOCH_CHECK(plan.has_value(), "{}", plan.error().message);
  check::CheckOptions judging;
  judging.delete_ok_removes = module.delete_ok_removes(plan->options);
  if (module.consistency(plan->options) == kv::Consistency::lossy_cache)
    judging.model = check::Model::lossy_cache;
  Count count;
  return explore(*plan, judging, {.states = 2'000'000, .reduces = reduces, .saves = saves}, count, nullptr);
}

const Settings two_slots = {{"nessie.hash-functions", "2"}};
const Settings one_cas = {{"nessie.hash-functions", "2"}, {"nessie.single-cas-delete", "true"}};

class Holds : public ::testing::TestWithParam<Case> {};

TEST_P(Holds, InEveryOrder) {
  const Exploration all = explored(GetParam());
  EXPECT_EQ(all.ending, Ending::complete);
  EXPECT_GT(all.states, 10u);
  if (all.violation) ADD_FAILURE() << all.violation->reasons.front();
}
INSTANTIATE_TEST_SUITE_P(
    Scenarios, Holds,
    ::testing::Values(Case{"nessie", "PUT K | DELETE K", two_slots}, Case{"nessie", "PUT K | DELETE K"},
                      Case{"nessie", "MIGRATE K; MIGRATE K; MIGRATE K | GET K", two_slots},
                      Case{"nessie", "DELETE K | DELETE K", one_cas, {.fails = 1}},
                      Case{"nessie", "GET K | MIGRATE K | PUT K", two_slots},
                      Case{"nessie", "PUT K | GET K", two_slots, {.kills = 1}},
                      Case{"nessie-sd", "PUT K | DELETE K; GET K"},
                      Case{"nessie-hy", "PUT K | DELETE K; GET K"}, Case{"pilaf", "PUT K | GET K; GET K"},
                      Case{"pilaf-vo", "PUT K | GET K; GET K"}, Case{"herd", "PUT K | GET K"}));

class Found : public ::testing::TestWithParam<Case> {};

TEST_P(Found, WithATrace) {
  const Exploration all = explored(GetParam());
  ASSERT_EQ(all.ending, Ending::found);
  EXPECT_FALSE(all.violation->reasons.empty());
  EXPECT_GT(all.violation->moves.size(), 3u);
}
INSTANTIATE_TEST_SUITE_P(
    Scenarios, Found,
    ::testing::Values(
        // Known fault A1 (docs/protocols/nessie.md): of two DELETEs of one value, one gets an error.
        Case{"nessie", "DELETE K | DELETE K", one_cas, {.fails = 1}, "desired-word-proves"},
        // Known fault H2 (docs/protocols/nessie.md): a GET misses a key that moves away and back.
        Case{"nessie",
             "MIGRATE K; MIGRATE K; MIGRATE K | GET K",
             {{"nessie.hash-functions", "2"}, {"nessie.variant", "published"}}},
        Case{"nessie", "MIGRATE K; MIGRATE K | GET K", two_slots, {}, "no-reverse-pass"},
        Case{"nessie", "PUT K | GET K", two_slots, {}, "remove-before-commit"},
        Case{"nessie", "DELETE K | DELETE K", two_slots, {}, "unlock-by-write"},
        Case{"nessie", "MIGRATE K; PUT K | DELETE K", two_slots, {}, "rollback-to-empty"}));

// The shortest trace that the exploration finds for the known fault A1 (docs/protocols/nessie.md) is as long
// as the one derived by hand.
TEST(Shortest, A1TakesEightMoves) {
  const Exploration all =
      explored({"nessie", "DELETE K | DELETE K", one_cas, {.fails = 1}, "desired-word-proves"});
  ASSERT_TRUE(all.violation.has_value());
  EXPECT_TRUE(all.violation->is_shortest);
  EXPECT_EQ(all.violation->moves.size(), 8u);
}

// A store with a log file is refused, because each interleaving has to begin with the same state, and a file
// would keep the changes of the previous interleaving.
TEST(Refused, AStoreThatKeepsSomethingInAFile) {
  auto scenario = parse_scenario("PUT K");
  ASSERT_TRUE(scenario.has_value());
  const auto plan = make_plan({.module = &module_of("pilaf"),
                               .scenario = std::move(*scenario),
                               .settings = {{"pilaf.log", "somewhere/log"}},
                               .mutant = "",
                               .bounds = {}});
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().message.find("pilaf.log: \"somewhere/log\":"), 0u) << plan.error().message;
  EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
}

// An operation that prepares the initial state (in this test a DELETE) may leave work to the store's
// background coroutine; that work is done before the exploration begins.
TEST(Before, IsOverWithItsBackground) {
  auto scenario = parse_scenario("MIGRATE K | PUT K2");
  ASSERT_TRUE(scenario.has_value() && prepare(*scenario, "DELETE K2").has_value());
  const auto plan = make_plan({.module = &module_of("nessie"),
                               .scenario = std::move(*scenario),
                               .settings = two_slots,
                               .mutant = "",
                               .bounds = {}});
  ASSERT_TRUE(plan.has_value());
  Count count;
  const Exploration all = explore(*plan, {}, {.states = 5'000}, count, nullptr);
  EXPECT_EQ(all.ending, Ending::complete);
}

class SameStates : public ::testing::TestWithParam<Case> {};

TEST_P(SameStates, WithReductionAndWithout) {
  const Exploration reduced = explored(GetParam()), all = explored(GetParam(), false);
  const Exploration repeated = explored(GetParam(), true, false);
  EXPECT_EQ(reduced.states, repeated.states);
  EXPECT_EQ(reduced.transitions, repeated.transitions);
  EXPECT_EQ(reduced.outcomes, repeated.outcomes);
  EXPECT_EQ(reduced.ending, Ending::complete);
  EXPECT_EQ(reduced.states, all.states);
  EXPECT_EQ(reduced.ends, all.ends);
  EXPECT_EQ(reduced.outcomes, all.outcomes);
  EXPECT_LT(reduced.transitions, all.transitions);
}
INSTANTIATE_TEST_SUITE_P(Scenarios, SameStates,
                         ::testing::Values(Case{"nessie", "PUT K | DELETE K", two_slots},
                                           Case{"nessie", "PUT K | MIGRATE K", two_slots},
                                           Case{"nessie", "PUT K | GET K", two_slots, {.fails = 1}},
                                           Case{"nessie-sd", "PUT K | DELETE K; GET K"},
                                           Case{"pilaf", "PUT K | GET K; GET K"},
                                           Case{"herd", "PUT K | GET K", {}, {.fails = 1}}));

}  // namespace
}  // namespace loch::explore
