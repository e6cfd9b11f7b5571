// Tests shrinking: findings of a minimal store, of the protocols' known-bad variants and of known faults of
// published designs. The reduced scenario shows the same finding repeatedly, and none when the known cause is
// switched off.
#include "app/fuzz/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/registry.h"
#include "app/fuzz/mutants.h"
#include "app/fuzz/replay.h"
#include "app/fuzz/run.h"

namespace loch::fuzz {
namespace {

struct Case {
  std::string protocol, mutant, hole;
  std::uint64_t seed, most;  // most: operations that may remain after shrinking
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.protocol << " " << c.mutant << c.hole;
}

class Shrinking : public ::testing::TestWithParam<Case> {
 protected:
  const kv::Registry registry_ = cli::make_registry();
};

FuzzVerdict verdict_of(FuzzScenario scenario, const FuzzOptions& options) {
  FuzzFinding finding;
  EXPECT_TRUE(run_scenario(scenario, options.hardware, finding));
  return finding.verdict;
}

TEST_P(Shrinking, LeavesFewOperationsThatShowTheSame) {
  const Case& c = GetParam();
  const auto found = registry_.find(c.protocol);
  ASSERT_NE(found, registry_.end());
  const kv::Module& module = *found->second;
  FuzzOptions options;
  options.protocol = c.protocol;
  options.mutant = c.mutant;
  for (const kv::Hole& hole : module.holes()) {
    if (hole.name == c.hole) options = with_hole(options, hole);
  }
  const FuzzFinding finding = fuzz_seed(c.seed, options, module);
  ASSERT_NE(finding.verdict, FuzzVerdict::holds);
  ASSERT_NE(finding.verdict, FuzzVerdict::error) << finding.reason;

  const Shrunk shrunk = shrink(finding, options);
  ASSERT_TRUE(shrunk.reproduced);
  EXPECT_LE(operations_left(*shrunk.finding.ran), c.most);
  EXPECT_GT(shrunk.operations_from, 4 * c.most);
  EXPECT_LE(shrunk.runs, options.shrink_runs + 4);
  EXPECT_EQ(shrunk.finding.verdict, finding.verdict);

  // Shrinking the same finding a second time gives the same scenario.
  const Shrunk again = shrink(finding, options);
  EXPECT_EQ(to_text(make_replay(again.finding, options)), to_text(make_replay(shrunk.finding, options)));

  // The scenario read back from its replay file gives the same run; with the known-bad variant switched off,
  // the scenario has no finding.
  auto replay = parse_replay(to_text(make_replay(shrunk.finding, options)), "f.json");
  ASSERT_TRUE(replay) << replay.error().message;
  ASSERT_TRUE(make_runnable(*replay, registry_, "f.json"));
  FuzzFinding replayed;
  ASSERT_TRUE(run_scenario(replay->scenario, options.hardware, replayed));
  EXPECT_EQ(replayed.verdict, finding.verdict);
  EXPECT_EQ(replayed.trace_hash, shrunk.finding.trace_hash);
  EXPECT_EQ(history_hash(replayed.history), replay->history_hash);
  if (c.mutant.empty()) return;
  replay->scenario.plan.mutant.clear();
  EXPECT_EQ(verdict_of(replay->scenario, options), FuzzVerdict::holds);
}

INSTANTIATE_TEST_SUITE_P(Known, Shrinking,
                         ::testing::Values(Case{"nessie", "no-rollback", "", 6, 8},
                                           Case{"nessie", "unlock-by-write", "", 1, 8},
                                           Case{"nessie", "", "H1", 73, 8},
                                           Case{"nessie-sd", "shared-tables", "", 8, 8},
                                           Case{"nessie-hy", "reply-before-store", "", 8, 8},
                                           Case{"pilaf", "growth-without-reset", "", 22, 8},
                                           Case{"herd", "reply-not-awaited", "", 1, 8}));

// The script of a run's operations, executed with the same seed, repeats the run event by event, unless a
// client is killed.
TEST(Script, OfARunIsTheSameRun) {
  const kv::Registry registry = cli::make_registry();
  std::uint32_t exact = 0;
  for (const std::string protocol : {"nessie", "pilaf", "herd"}) {
    FuzzOptions options;
    options.protocol = protocol;
    for (std::uint64_t seed = 1; seed <= 16; ++seed) {
      FuzzFinding first = fuzz_seed(seed, options, *registry.at(protocol)), second;
      ASSERT_TRUE(first.ran.has_value()) << first.reason;
      FuzzScenario scenario = *first.ran;
      workloads::Transcript transcript;
      scenario.plan.load.transcript = &transcript;
      ASSERT_TRUE(run_scenario(scenario, options.hardware, second));
      EXPECT_EQ(second.trace_hash, first.trace_hash);
      scenario.plan.load.transcript = nullptr;
      scenario.plan.load.script = transcript.load;
      ASSERT_TRUE(run_scenario(scenario, options.hardware, second));
      // A client that is killed between two operations would have drawn further operations in the original
      // run, but may have none left in its script, so that traces differ.
      const bool has_kill = std::ranges::any_of(scenario.sim.faults.schedule, [&](const auto& fault) {
        using Kind = fabric::sim::ScheduledFault::Kind;
        return fault.kind == Kind::kill ||
               (fault.kind == Kind::crash && scenario.plan.deploy.drives(fault.node));
      });
      if (has_kill) continue;
      ++exact;
      EXPECT_EQ(second.trace_hash, first.trace_hash)
          << protocol << " seed " << seed << ": " << first.scenario;
    }
  }
  EXPECT_GT(exact, 25U);
}

}  // namespace
}  // namespace loch::fuzz
