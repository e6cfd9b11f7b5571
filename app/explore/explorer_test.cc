// Tests the explorer on a toy store: it finds known races with their shortest traces and known numbers of
// outcomes, and sleep sets change neither the states nor the outcomes.
#include "app/explore/explorer.h"

#include <gtest/gtest.h>

#include <set>

#include "app/explore/family.h"
#include "app/explore/toy_store.h"

namespace loch::explore {
namespace {

// Value size with which value and 8-byte checksum take two cache lines.
constexpr std::uint32_t two_lines = 96;

struct Case {
  std::string scenario;
  std::string variant = "correct";
  Bounds bounds = {};
  bool is_absent = false;
  std::uint32_t value_bytes = least_value_bytes;
};

Plan plan_for(const Case& wanted) {
  static const testing::ToyModule module;
  auto scenario = parse_scenario(wanted.scenario);
  LOCH_CHECK(scenario.has_value(), "{}", scenario.error().message);
  auto plan = make_plan({.module = &module,
                         .scenario = std::move(*scenario),
                         .settings = {{"toy.variant", wanted.variant}},
                         .mutant = "",
                         .bounds = wanted.bounds,
                         .is_absent = wanted.is_absent,
                         .value_bytes = wanted.value_bytes});
  LOCH_CHECK(plan.has_value(), "{}", plan.error().message);
  return std::move(*plan);
}

Exploration explored(const Case& wanted, const Limits& limits = {}) {
  const Plan plan = plan_for(wanted);
  Count count;
  return explore(plan, check::CheckOptions{}, limits, count, nullptr);
}

// A bound on context switches only removes interleavings: with 0 switches the operations run one after
// another, and with enough switches all outcomes appear.
TEST(Switches, BoundOrders) {
  const Case three = {"PUT K; GET K | DELETE K"};
  const Exploration all = explored(three);
  std::set<Hash> before;
  for (const std::uint32_t switches : {0U, 1U, 2U, 12U}) {
    const Exploration some = explored({three.scenario, "correct", {.switches = switches}});
    EXPECT_EQ(some.ending, Ending::complete);
    EXPECT_TRUE(std::ranges::includes(all.outcomes, some.outcomes)) << switches;
    EXPECT_TRUE(std::ranges::includes(some.outcomes, before)) << switches;
    before = some.outcomes;
  }
  EXPECT_EQ(before, all.outcomes);
  EXPECT_LT(explored({three.scenario, "correct", {.switches = 0}}).states, all.states);
}

TEST(Switches, ARaceNeedsOne) {
  EXPECT_EQ(explored({"DELETE K | DELETE K", "racy", {.switches = 0}}).ending, Ending::complete);
  EXPECT_EQ(explored({"DELETE K | DELETE K", "racy", {.switches = 1}}).ending, Ending::found);
}

// Tests when a SCRUB (a repair of what dead clients left half-done) runs: only after a client's death, if a
// client can die. The toy store's SCRUB repairs nothing.
TEST(Scrub, WaitsForADeath) {
  const Exploration all = explored({"PUT K | SCRUB; GET K", "correct", {.kills = 1}});
  EXPECT_EQ(all.ending, Ending::complete);
  EXPECT_LT(all.states, explored({"PUT K | GET K", "correct", {.kills = 1}}).states);
  // If no client can be killed, a SCRUB (a repair after clients' deaths) does not wait for a death, and does
  // nothing.
  EXPECT_EQ(explored({"PUT K | SCRUB"}).ending, Ending::complete);
}

TEST(Families, HaveTheSizesThatTheyShould) {
  const auto size = [](std::string_view family, bool migrates) {
    const auto all = scenarios_of(family, "K", "X", migrates);
    LOCH_CHECK(all.has_value(), "{}", all.error().message);
    const std::set<std::string> different(all->begin(), all->end());
    EXPECT_EQ(different.size(), all->size()) << family;
    for (const std::string& text : *all) EXPECT_TRUE(parse_scenario(text, "K X").has_value()) << text;
    return all->size();
  };
  EXPECT_EQ(size("pairs", true), 36U);    // unordered pairs of 8 operations: 8 * 9 / 2
  EXPECT_EQ(size("triples", true), 84U);  // unordered triples of 7 operations: 7 * 8 * 9 / 6
  EXPECT_EQ(size("triples", false), 35U);
  // Unordered pairs of 7 programs of one operation and 49 of two: 56 * 57 / 2.
  EXPECT_EQ(size("pairs-2", true), 1'596U);
  // unordered pairs of 6 programs of one operation and 36 of two: 42 * 43 / 2
  EXPECT_EQ(size("writers", true), 903U);
  EXPECT_EQ(size("two-one-one", true), 160U);  // (16 programs of 2 operations) * (10 pairs of programs of 1)
  // unordered pairs of 4 programs of one operation and 16 of two: 20 * 21 / 2
  EXPECT_EQ(size("two-two", true), 210U);
  EXPECT_EQ(size("scrubbed", true), 343U);  // 7 choices for each of three clients
  EXPECT_NE(scenarios_of("pears", "K", "X", true).error().message.find("pairs"), std::string::npos);
}

// The toy store keeps each key in one fixed slot, so the initial placements of keys differ only in which keys
// are present.
TEST(Families, StartsAreArrangements) {
  const Plan plan = plan_for({"GET K | GET X"});
  EXPECT_EQ(starts_of(plan, 0), (std::vector<std::string>{""}));
  EXPECT_EQ(starts_of(plan, 2), (std::vector<std::string>{"", "DELETE K", "DELETE X", "DELETE K; DELETE X"}));
}

TEST(Scenario, IsReadAndRefused) {
  const auto scenario = parse_scenario("DELETE K | PUT K2; GET  K;MIGRATE L");
  ASSERT_TRUE(scenario.has_value());
  ASSERT_EQ(scenario->clients.size(), 2u);
  EXPECT_EQ(scenario->clients[1].size(), 3u);
  EXPECT_EQ(scenario->keys, (std::vector<std::string>{"K", "K2", "L"}));
  EXPECT_EQ(scenario->describe(scenario->clients[1][2]), "MIGRATE L");
  const auto named = parse_scenario("GET X | SCRUB", "K  X");
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->keys, (std::vector<std::string>{"K", "X"}));
  EXPECT_EQ(named->describe(named->clients[1][0]), "SCRUB");
  EXPECT_NE(parse_scenario("GET K", "K K").error().message.find("expected"), std::string::npos);
  for (const char* bad :
       {"SCRUB K", "", "DELETE", "DELETE K |", "FROB K", "GET 7", "GET K K", "GET K;;GET K"}) {
    const auto refused = parse_scenario(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_NE(refused.error().message.find("expected"), std::string::npos) << refused.error().message;
  }
}

// Two concurrent DELETEs have four outcomes: either one deletes the key, and the other began before or after
// its end.
TEST(Explorer, TwoDeletesHaveFourOutcomes) {
  const Exploration all = explored({"DELETE K | DELETE K"});
  EXPECT_EQ(all.ending, Ending::complete);
  EXPECT_FALSE(all.violation.has_value());
  EXPECT_EQ(all.outcomes.size(), 4u);
}

// A single client has only one path: the number of states is one more than its number of moves.
TEST(Explorer, OneClientHasOneWay) {
  const Exploration all = explored({"GET K"});
  EXPECT_EQ(all.ending, Ending::complete);
  EXPECT_EQ(all.states, 4u);  // the states: initial, GET begun, word read, value read
  EXPECT_EQ(all.transitions, 3u);
  EXPECT_EQ(all.ends, 1u);
}

// Two clients with two requests each on different keys have (1 + 3) * (1 + 3) combined positions; some count
// twice, because the order of one operation's end and the other's begin is part of the state.
TEST(Explorer, ClientsThatNeverMeetHaveAsManyStatesAsPositions) {
  const Exploration all = explored({"GET A | GET B"}, {.states = 1'000'000, .time = 0, .reduces = true});
  EXPECT_EQ(all.ending, Ending::complete);
  // There are 16 combined positions, and 3 more states for each client: once the client's operation has
  // begun, the state tells whether it began after the other client's operation had ended.
  EXPECT_EQ(all.states, 22u);
  EXPECT_EQ(all.outcomes.size(), 3u);
}

TEST(Explorer, AKnownRaceIsFoundWithItsShortestTrace) {
  const Exploration all = explored({"DELETE K | DELETE K", "racy"});
  ASSERT_EQ(all.ending, Ending::found);
  ASSERT_TRUE(all.violation.has_value());
  EXPECT_TRUE(all.violation->is_shortest);
  // The shortest trace of two racing DELETEs: both begin, both READ, both WRITE.
  EXPECT_EQ(all.violation->moves.size(), 6u);
  EXPECT_FALSE(all.violation->sub_history.empty());
  const auto lines = trace_of(plan_for({"DELETE K | DELETE K", "racy"}), all.violation->moves);
  EXPECT_NE(lines.back().find("DELETE K answers ok"), std::string::npos) << lines.back();
}

TEST(Explorer, ADeadClientsLockIsFoundAtRest) {
  EXPECT_FALSE(explored({"PUT K | GET K", "locked"}).violation.has_value());
  const Exploration all = explored({"PUT K | GET K", "locked", {.kills = 1}});
  ASSERT_TRUE(all.violation.has_value());
  EXPECT_NE(all.violation->reasons.front().find("at rest: GET K answers conflict"), std::string::npos)
      << all.violation->reasons.front();
  // In the variant without a lock, a dead client blocks no other client.
  EXPECT_EQ(explored({"PUT K | GET K", "correct", {.kills = 1}}).ending, Ending::complete);
}

TEST(Explorer, ABackgroundThatDoesNothingIsNoEndlessRun) {
  const Exploration all = explored({"PUT K | DELETE K", "sleepy"});
  EXPECT_EQ(all.ending, Ending::complete);
  EXPECT_EQ(all.outcomes, explored({"PUT K | DELETE K"}).outcomes);
}

TEST(Explorer, ABoundIsReached) {
  EXPECT_EQ(explored({"PUT K; GET K | DELETE K; PUT K"}, {.states = 50}).ending, Ending::bound);
}

TEST(Explorer, FailuresMultiplyOutcomes) {
  const Exploration none = explored({"DELETE K | PUT K"});
  const Exploration some = explored({"DELETE K | PUT K", "correct", {.fails = 1}});
  EXPECT_EQ(some.ending, Ending::complete);
  EXPECT_GT(some.outcomes.size(), none.outcomes.size());
}

// A scenario with a value of two cache lines that PUTs overwrite in place.
Case in_place(const std::string& variant, Bounds bounds, const std::string& scenario = "PUT K | GET K") {
  return {scenario, variant, bounds, false, two_lines};
}

TEST(Torn, AReaderThatBelievesEveryReadIsFound) {
  EXPECT_EQ(explored(in_place("in-place", {})).ending, Ending::complete);
  const Exploration all = explored(in_place("in-place", {.torn = 1}));
  ASSERT_EQ(all.ending, Ending::found);
  EXPECT_TRUE(all.violation->is_shortest);
  EXPECT_NE(all.violation->reasons.front().find("corrupt"), std::string::npos)
      << all.violation->reasons.front();
  // The shortest trace has four moves: the PUT begins, half of its WRITE is executed, the GET begins, and its
  // READ is executed before the WRITE's other half.
  EXPECT_EQ(all.violation->moves.size(), 4u);
  const auto lines = trace_of(plan_for(in_place("in-place", {.torn = 1})), all.violation->moves);
  EXPECT_NE((lines[1] + lines[2]).find("torn: "), std::string::npos) << lines[1] << lines[2];
}

TEST(Torn, AReaderThatChecksIsNotFound) {
  const Exploration whole = explored(in_place("checked", {}));
  const Exploration torn = explored(in_place("checked", {.torn = 1}));
  EXPECT_EQ(torn.ending, Ending::complete);
  EXPECT_GT(torn.states, whole.states);
  // A GET that detects a torn value READs again and in the end answers with a conflict. Torn WRITEs thus add
  // outcomes and remove none.
  EXPECT_TRUE(std::ranges::includes(torn.outcomes, whole.outcomes));
  EXPECT_GT(torn.outcomes.size(), whole.outcomes.size());
}

// READs can be torn too: the GET returns half of the old value and half of the new one although every WRITE
// was executed as a whole.
TEST(Torn, AReadIsTornWhereTheWriteIsNot) {
  const Plan plan = plan_for(in_place("in-place", {.torn = 1}));
  class Run run(plan);
  run.set_hashing(false);
  const auto make = [&run](Kind kind, std::uint8_t worker, std::uint8_t half) {
    const Move move{kind, worker, 0, half};
    const std::vector<Move> possible = run.moves();
    EXPECT_NE(std::ranges::find(possible, move), possible.end());
    run.apply(move);
  };
  make(Kind::begin, 0, 0);
  make(Kind::begin, 1, 0);
  // 4 = 4 * 1 + 0 (Move::half): torn before cache line 1, and the lower half is executed first
  make(Kind::tear, 1, 4);
  make(Kind::request, 0, 0);
  EXPECT_EQ(run.operations()[0].status, kv::OpStatus::ok);
  make(Kind::request, 1, 0);
  EXPECT_TRUE(run.operations()[1].value.starts_with("corrupt:")) << run.operations()[1].value;
  // No move is left, because Bounds::torn allows one torn request and both clients have ended.
  EXPECT_TRUE(run.moves().empty());
}

// After one half of a torn request was executed, which half it was is part of the state; after both halves,
// it is not.
TEST(Torn, AHalfIsAPartOfTheState) {
  const Plan plan = plan_for(in_place("in-place", {.torn = 1}));
  const auto state_after = [&plan](std::uint8_t half, bool ends) {
    class Run run(plan);
    run.apply({Kind::begin, 1});
    run.apply({Kind::tear, 1, 0, half});
    if (ends) run.apply({Kind::request, 1});
    return run.id();
  };
  EXPECT_NE(state_after(4, false), state_after(6, false));
  EXPECT_EQ(state_after(4, true), state_after(6, true));
}

TEST(Torn, MessagesOfOneLineAreNot) {
  EXPECT_EQ(explored({"PUT K | GET K", "in-place", {.torn = 1}}).ending, Ending::complete);
  EXPECT_EQ(explored({"PUT K | GET K", "in-place", {.torn = 1}}).states,
            explored({"PUT K | GET K", "in-place"}).states);
}

// If the writer dies, a half-executed WRITE stays half-executed, and every later GET reads a torn value.
TEST(Torn, AWriterThatDiesLeavesHalf) {
  EXPECT_EQ(explored(in_place("in-place", {.kills = 1})).ending, Ending::complete);
  EXPECT_EQ(explored(in_place("in-place", {.kills = 1, .torn = 1})).ending, Ending::found);
}

// A GET that times out although none of its requests failed is a violation, even though its history is
// linearizable.
TEST(Stops, AnOperationThatGivesUpWithoutAReasonIsFound) {
  EXPECT_EQ(explored(in_place("once", {})).ending, Ending::complete);
  const Exploration all = explored(in_place("once", {.torn = 1}));
  ASSERT_EQ(all.ending, Ending::found);
  EXPECT_NE(all.violation->reasons.front().find("GET K of client B does not end"), std::string::npos)
      << all.violation->reasons.front();
}

class Reduction : public ::testing::TestWithParam<Case> {};

// Sleep sets reduce the number of moves, but neither the states nor the outcomes.
TEST_P(Reduction, FindsTheSameStatesAndOutcomes) {
  const Exploration reduced = explored(GetParam(), {.keeps_going = true});
  const Exploration all = explored(GetParam(), {.reduces = false, .keeps_going = true});
  EXPECT_EQ(reduced.states, all.states);
  EXPECT_EQ(reduced.ends, all.ends);
  EXPECT_EQ(reduced.outcomes, all.outcomes);
  EXPECT_EQ(reduced.violation.has_value(), all.violation.has_value());
  EXPECT_LT(reduced.transitions, all.transitions);
}
// Backtracking by restored memory finds the same states as backtracking by repeated moves.
TEST_P(Reduction, SavedMemoryIsTheStateThatTheMovesLeadTo) {
  const Exploration saved = explored(GetParam(), {.keeps_going = true});
  const Exploration repeated = explored(GetParam(), {.saves = false, .keeps_going = true});
  EXPECT_EQ(saved.states, repeated.states);
  EXPECT_EQ(saved.transitions, repeated.transitions);
  EXPECT_EQ(saved.returns, repeated.returns);
  EXPECT_EQ(saved.ends, repeated.ends);
  EXPECT_EQ(saved.outcomes, repeated.outcomes);
  EXPECT_GT(repeated.repeated, 0u);
#if !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
  EXPECT_EQ(saved.repeated, 0u);
#endif
}
INSTANTIATE_TEST_SUITE_P(Scenarios, Reduction,
                         ::testing::Values(Case{"DELETE K | DELETE K"}, Case{"DELETE K | DELETE K", "racy"},
                                           Case{"PUT A; GET B | PUT B; GET A"},
                                           Case{"GET A | GET A | PUT A", "correct", {}, true},
                                           Case{"PUT K | DELETE K | GET K"},
                                           Case{"PUT K | GET K", "correct", {.fails = 1, .kills = 1}},
                                           Case{"PUT K | SCRUB; GET K | DELETE K", "correct", {.kills = 1}},
                                           in_place("checked", {.torn = 2}),
                                           in_place("in-place", {.torn = 1}, "PUT K; PUT K | GET K; GET K"),
                                           in_place("in-place", {.fails = 1, .kills = 1, .torn = 1}),
                                           Case{"PUT K; GET K | PUT K", "locked", {.clocks = 1}}));

}  // namespace
}  // namespace loch::explore
