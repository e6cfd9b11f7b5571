// Tests replay files: a written file reads back as the same scenario, and malformed files are refused.
#include "app/fuzz/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/fuzz/fields.h"
#include "app/fuzz/page.h"
#include "app/fuzz/run.h"
#include "tests/support/slot_store.h"

namespace loch::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReplayFile : public ::testing::Test {
 protected:
  void SetUp() override { registry_.emplace("slots", support::make_slot_store()); }
  [[nodiscard]] const kv::Module& module() const { return *registry_.at("slots"); }
  [[nodiscard]] FuzzOptions options() const {
    FuzzOptions options;
    options.protocol = "slots";
    return options;
  }
  [[nodiscard]] std::string text_of_seed(std::uint64_t seed) const {
    return to_text(make_replay(fuzz_seed(seed, options(), module()), options()));
  }
  // The error from reading the file with `from` replaced by `to`.
  [[nodiscard]] std::string refusal(const std::string& from, const std::string& to) const {
    std::string text = text_of_seed(failing_seed);
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    auto replay = parse_replay(text, "f.json");
    if (!replay) return replay.error().message;
    const auto bound = make_runnable(*replay, registry_, "f.json");
    return bound ? "accepted" : bound.error().message;
  }
  static constexpr std::uint64_t failing_seed = 6;
  kv::Registry registry_;
};

// For every seed, the scenario read back from its file gives the same run, so the file determines the run.
TEST_F(ReplayFile, HoldsAllThatDecidesARun) {
  std::uint32_t with_failures = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    FuzzOptions all = options();
    if (seed % 6 == 1) {
      const auto kind = static_cast<kv::ConflictConfig::Kind>(seed / 6 % 4);
      all.conflicts = kv::ConflictConfig{.kind = kind, .start = 900, .epoch = 50'000};
    }
    const FuzzFinding found = fuzz_seed(seed, all, module());
    ASSERT_TRUE(found.ran.has_value()) << found.reason;
    const std::string text = to_text(make_replay(found, all));
    auto replay = parse_replay(text, "f.json");
    ASSERT_TRUE(replay) << replay.error().message;
    const auto bound = make_runnable(*replay, registry_, "f.json");
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(to_text(*replay), text);
    const auto& conflicts = replay->scenario.plan.load.conflicts;
    ASSERT_EQ(conflicts.has_value(), all.conflicts.has_value());
    if (conflicts)
      EXPECT_EQ(std::pair(conflicts->kind, conflicts->start), std::pair(all.conflicts->kind, 900L));
    FuzzFinding again;
    ASSERT_TRUE(run_scenario(replay->scenario, replay->hardware, again));
    EXPECT_EQ(again.trace_hash, found.trace_hash) << "seed " << seed;
    EXPECT_EQ(again.verdict, found.verdict);
    with_failures += replay->scenario.failures.has_schedule ? 1 : 0;
  }
  EXPECT_GT(with_failures, 5U);
}

TEST_F(ReplayFile, IsReadStrictly) {
  EXPECT_EQ(refusal("loch-replay", "loch-replay"), "accepted");
  EXPECT_EQ(refusal("\"version\": 1", "\"version\": 2"),
            "f.json: version: expected 1, which this program reads");
  EXPECT_THAT(refusal("loch-replay", "loch-reply"), HasSubstr("f.json: format: expected"));
  EXPECT_EQ(refusal("\"mutant\": \"\"", "\"mutant\": \"\", \"run\": \"/bin/sh\""),
            "f.json: run: expected no such key");
  EXPECT_EQ(refusal("\"nodes\": ", "\"nodes\": 0.5, \"odes\": "),
            "f.json: scenario.cluster.nodes: expected a whole number from 1 to 8");
  EXPECT_EQ(refusal("\"window\": ", "\"window\": 1, \"window\": "), "f.json: a key is there twice");
  EXPECT_EQ(refusal("\"window\": ", "\"indow\": "), "f.json: scenario.cluster.window: is missing");
  EXPECT_THAT(refusal("\"verdict\": \"holds\"", "\"verdict\": \"hold\""),
              HasSubstr("shows.verdict: expected one of"));
  EXPECT_THAT(refusal("\"trace_hash\": \"", "\"trace_hash\": \"x"), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(refusal("\"schedule\"", "schedule"), HasSubstr("f.json:"));
  EXPECT_THAT(refusal("\"schedule\"", "schedule"), HasSubstr("expected JSON"));
  EXPECT_THAT(parse_replay(std::string(100'000, '['), "f.json").error().message, HasSubstr("f.json"));
  EXPECT_THAT(parse_replay("{\"format\": \"loch-replay\", \"version\": 1e999}", "f.json").error().message,
              HasSubstr("f.json: expected JSON with numbers"));
}

TEST_F(ReplayFile, OfAScenarioThatCannotRunIsRefused) {
  EXPECT_THAT(refusal("\"protocol\": \"slots\"", "\"protocol\": \"slot\""), HasSubstr("f.json: protocol: "));
  EXPECT_THAT(refusal("\"mutant\": \"\"", "\"mutant\": \"no-look\""),
              HasSubstr("slots has no mutant \"no-look\""));
  EXPECT_THAT(refusal("connectx3-10gbe", "/etc/passwd"),
              HasSubstr("hardware: \"/etc/passwd\" is no profile"));
  EXPECT_THAT(refusal("\"settings\": {}", "\"settings\": {\"slots.spair\": \"1\"}"),
              HasSubstr("slots.spair"));
  EXPECT_THAT(refusal("\"put\": ", "\"insert_if_absent\": 0, \"put\": "), "accepted");
}

TEST_F(ReplayFile, InsertsOfAStoreWithoutThemAreRefused) {
  Replay replay = make_replay(fuzz_seed(failing_seed, options(), module()), options());
  workloads::OperationMix& mix = replay.scenario.plan.load.mix;
  std::swap(mix.put, mix.insert_if_absent);
  ASSERT_GT(mix.insert_if_absent, 0);
  auto read = parse_replay(to_text(replay), "f.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->scenario.plan.load.mix.insert_if_absent, mix.insert_if_absent);
  const auto bound = make_runnable(*read, registry_, "f.json");
  ASSERT_FALSE(bound);
  EXPECT_THAT(bound.error().message, HasSubstr("f.json: scenario.load: expected no insert_if_absent"));
}

// A file whose schedule kills the client that makes the repairs is refused, because no client would be left
// to repair.
TEST_F(ReplayFile, FailuresOfAFileLeaveTheKeeperAlive) {
  Replay replay = make_replay(fuzz_seed(failing_seed, options(), module()), options());
  FuzzScenario& s = replay.scenario;
  s.failures.has_schedule = true;
  s.failures.keeper = {0, 0};
  s.sim.faults.schedule = {
      {.kind = fabric::sim::ScheduledFault::Kind::kill, .node = 0, .worker = 0, .at = 1'000}};
  s.failures.repair_after = {1'000};
  EXPECT_THAT(
      parse_replay(to_text(replay), "f.json").error().message,
      HasSubstr("f.json: scenario.failures.schedule[0]: expected a failure that leaves the keeper alive"));
  s.failures.keeper = {0, 9};
  EXPECT_THAT(parse_replay(to_text(replay), "f.json").error().message,
              HasSubstr("f.json: scenario.failures.keeper: expected a client worker"));
  s.failures.keeper = {0, 0};
  s.sim.faults.schedule[0].node = 7;
  EXPECT_THAT(parse_replay(to_text(replay), "f.json").error().message, HasSubstr("schedule[0].node"));
}

TEST(Page, EscapesWhatItDoesNotTrust) {
  EXPECT_EQ(escaped("<b>&\"'\x01"), "&lt;b&gt;&amp;&quot;&#39; ");
  const std::string evil = "</title><script>alert('x')</script>\" onload=\"x";
  Replay replay;
  replay.protocol = replay.mutant = replay.cause = evil;
  replay.scenario.profile = evil;
  FuzzFinding finding;
  finding.verdict = FuzzVerdict::violated;
  finding.reason = evil;
  finding.history = {{0, OpKind::put, Outcome::unknown, evil, evil, 10, std::nullopt},
                     {1, OpKind::get, Outcome::ok, evil, evil, 20, 30}};
  finding.sub_history = {finding.history.back()};
  const std::string page = draw_page(replay, finding);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\" onload")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

// The page frames each operation of the contradiction once in the drawing and lists it once in the table. The
// drawing has a row for each node with failures.
TEST(Page, ShowsTheContradictionAndTheFailures) {
  Replay replay;
  replay.protocol = "slots";
  FuzzScenario& s = replay.scenario;
  s.plan.deploy.nodes = 2;
  s.sim.faults.schedule = {
      {.kind = fabric::sim::ScheduledFault::Kind::cut, .node = 1, .at = 15, .span = 100}};
  s.failures.repair_after = {0};
  FuzzFinding finding;
  finding.verdict = FuzzVerdict::violated;
  finding.reason = "key long-name: it is lost";
  finding.history = {{-1, OpKind::remove, Outcome::not_found, "long-name", std::nullopt, 0, 0},
                     {0, OpKind::put, Outcome::ok, "long-name", "w0.1", 10, 20},
                     {1, OpKind::get, Outcome::not_found, "long-name", std::nullopt, 30, 40},
                     {1, OpKind::get, Outcome::ok, "other", "init", 50, 60}};
  finding.sub_history = {finding.history[1], finding.history[2]};
  const std::string page = draw_page(replay, finding);
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (auto at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("stroke=\"var(--bad)\""), 2U);
  EXPECT_EQ(count("<tr class=\"bad\">"), 2U);
  EXPECT_EQ(count("PUT A = w0.1 : ok"), 3U);  // in the tooltip, the label and the table
  EXPECT_EQ(count("key A: it is lost. At the beginning A was absent."), 1U);
  EXPECT_EQ(count(">node n1<"), 1U);
  EXPECT_EQ(count("cut for 100ns"), 2U);
}

}  // namespace
}  // namespace loch::fuzz
