// Tests that a seed determines a run, that scenarios follow the options, and that a broken store is found and
// reported with the command to rerun it.
#include "app/fuzz/fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/registry.h"
#include "app/fuzz/failures.h"
#include "app/fuzz/run.h"
#include "app/fuzz/scenario.h"
#include "tests/support/slot_store.h"

namespace loch::fuzz {
namespace {

using ::testing::HasSubstr;

kv::Registry toys() {
  kv::Registry registry;
  registry.emplace("slots", support::make_slot_store());
  return registry;
}
FuzzOptions slots() {
  FuzzOptions options;
  options.protocol = "slots";
  return options;
}

TEST(Fuzz, ASeedIsOneRun) {
  const auto module = support::make_slot_store();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const FuzzFinding a = fuzz_seed(seed, slots(), *module), b = fuzz_seed(seed, slots(), *module);
    EXPECT_NE(a.verdict, FuzzVerdict::error) << a.reason;
    EXPECT_EQ(a.trace_hash, b.trace_hash);
    EXPECT_EQ(a.operations, b.operations);
    EXPECT_GT(a.operations, 0U);
    EXPECT_EQ(a.scenario, b.scenario);
  }
}

TEST(Fuzz, SeedsDiffer) {
  const auto module = support::make_slot_store();
  std::set<std::string> scenarios;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto scenario = draw_scenario(seed, *module, "", {});
    ASSERT_TRUE(scenario) << scenario.error().message;
    scenarios.insert(scenario->describe());
    EXPECT_GT(scenario->sim.faults.heal_at, 0);
  }
  EXPECT_GT(scenarios.size(), 40U);
}

TEST(Fuzz, ARunThatGoesOnForTooManyEventsIsAFinding) {
  const auto module = support::make_slot_store();
  auto scenario = draw_scenario(1, *module, "", {});
  ASSERT_TRUE(scenario) << scenario.error().message;
  FuzzFinding whole, cut;
  ASSERT_TRUE(run_scenario(*scenario, FuzzOptions().hardware, whole));
  EXPECT_EQ(whole.verdict, FuzzVerdict::holds) << whole.reason;
  scenario->sim.most_events = whole.events / 2;
  ASSERT_TRUE(run_scenario(*scenario, FuzzOptions().hardware, cut));
  EXPECT_EQ(cut.verdict, FuzzVerdict::overtime);
  EXPECT_THAT(cut.reason, HasSubstr("did not end within " + std::to_string(whole.events / 2) + " events"));
}

// A tenth of the scenarios have a node that crashes and soon restarts. The load of such a scenario lasts
// beyond the failure, and the node with the client that makes the repairs does not crash.
TEST(Fuzz, SomeNodesDieAndAreSoonBack) {
  const kv::Registry registry = cli::make_registry();
  const kv::Module& module = *registry.at("nessie-sd");
  constexpr int seeds = 300;
  int reborn = 0, with_links = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto s = draw_scenario(seed, module, "", {});
    ASSERT_TRUE(s) << s.error().message;
    const auto& schedule = s->sim.faults.schedule;
    ASSERT_EQ(schedule.size(), s->failures.repair_after.size());
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      EXPECT_TRUE(can_fail(*s, i)) << seed;
      constexpr Nanos soon = 200'000;
      const bool is_soon_back = schedule[i].kind == fabric::sim::ScheduledFault::Kind::crash &&
                                schedule[i].span > 0 && schedule[i].span <= soon && s->failures.retries &&
                                s->failures.retries->rnr_count == 1 &&
                                s->plan.load.duration > schedule[i].at + schedule[i].span;
      reborn += is_soon_back ? 1 : 0;
      with_links += is_soon_back && schedule.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(reborn, seeds / 20);
  EXPECT_LT(reborn, seeds / 5);
  EXPECT_GT(with_links, reborn / 4);
}

// No crashes with a quick restart are drawn for a store that promises no service after a crash.
TEST(Fuzz, NobodyIsRebornWhoPromisesNothing) {
  const auto module = support::make_slot_store();
  EXPECT_FALSE(promises_something(*module));
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto s = draw_scenario(seed, *module, "", {});
    ASSERT_TRUE(s) << s.error().message;
    EXPECT_FALSE(s->failures.retries && s->failures.retries->timeout == 5'000) << seed;
  }
}

TEST(Fuzz, AFixedSettingIsNotDrawn) {
  const auto module = support::make_slot_store();
  const auto scenario = draw_scenario(3, *module, "", {{"slots.spare", "64"}});
  ASSERT_TRUE(scenario);
  EXPECT_EQ(scenario->plan.options.integer("slots.spare"), 64);
  EXPECT_FALSE(scenario->knobs.contains("slots.spare"));
}

TEST(Fuzz, FindsABrokenStoreAndSaysHowToRunItAgain) {
  const auto module = support::make_slot_store();
  FuzzOptions options = slots();
  options.mutant = "no-lock";
  FuzzFinding found;
  const auto is_found = [&] {
    return found.verdict == FuzzVerdict::violated || found.verdict == FuzzVerdict::corrupt;
  };
  for (std::uint64_t seed = 1; seed <= 200 && !is_found(); ++seed) found = fuzz_seed(seed, options, *module);
  ASSERT_TRUE(is_found()) << "nothing found in 200 seeds";
  EXPECT_FALSE(found.reason.empty());
  EXPECT_EQ(rerun_line(found, options), "./loch fuzz --protocol slots --seeds 1 --first-seed " +
                                            std::to_string(found.seed) + " --mutant no-lock");
  EXPECT_EQ(fuzz_seed(found.seed, options, *module).trace_hash, found.trace_hash);
}

// A minimal store with the options of a cuckoo table and of server workers.
class TableOfWorkers final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "table"; }
  [[nodiscard]] std::string_view summary() const override { return "none"; }
  [[nodiscard]] std::string_view paper() const override { return "none"; }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    std::vector<kv::OptionSpec> specs = {
        {"table.load-factor", kv::OptionType::real, "0.4", "", {}, 0.01, 0.95},
        {"table.hash-functions", kv::OptionType::integer, "3", "", {}, 1, 4},
        {"table.min-spare", kv::OptionType::integer, "3", "", {}, 1, 1e6},
        {"table.odd", kv::OptionType::integer, "3", "", {}, 1, 1e6}};
    kv::give_role(specs, "table.load-factor", kv::OptionRole::load_factor);
    kv::give_role(specs, "table.hash-functions", kv::OptionRole::hash_functions);
    kv::give_role(specs, "table.min-spare", kv::OptionRole::spare_entries);
    kv::let_fuzz(specs, "table.odd", {"5", "7"});
    return specs;
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options&) const override {
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options&) const override { return {}; }
  [[nodiscard]] std::uint32_t default_servers() const override { return 3; }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig&, const kv::Options&,
                                                          std::string_view) const override {
    return fail(ErrorCode::unsupported, "never deployed");
  }
};

TEST(Fuzz, TablesThatWorkersOwnAreDrawnSmallAndSometimesInOneHand) {
  const TableOfWorkers module;
  std::uint32_t in_one_hand = 0, of_several = 0, odd = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const auto drawn = draw_scenario(seed, module, "", {});
    ASSERT_TRUE(drawn.has_value()) << drawn.error().message;
    const kv::DeployConfig& deploy = drawn->plan.deploy;
    EXPECT_GE(deploy.server_workers, 1u);
    EXPECT_LE(deploy.server_workers, 3u);
    EXPECT_TRUE(drawn->knobs.contains("table.load-factor"));
    EXPECT_TRUE(drawn->knobs.contains("table.hash-functions"));
    for (const auto& [key, value] : drawn->knobs) EXPECT_TRUE(key.starts_with("table.")) << key;
    odd += drawn->knobs.contains("table.odd") ? 1 : 0;
    if (deploy.server_nodes == 1 && deploy.server_workers == 1)
      ++in_one_hand;
    else
      ++of_several;
  }
  EXPECT_GT(odd, 15u);
  EXPECT_LT(odd, 45u);
  EXPECT_GT(in_one_hand, 20u);
  EXPECT_GT(of_several, 5u);
}

// Among 400 scenarios each kind of failure occurs; the client that makes the repairs never fails, and the
// failure plan lists every killed client.
TEST(Fuzz, FailuresAreDrawnByDefault) {
  using Kind = fabric::sim::ScheduledFault::Kind;
  const auto module = support::make_slot_store();
  std::map<Kind, std::uint32_t> seen;
  std::uint32_t calm = 0, impatient = 0, back = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const auto drawn = draw_scenario(seed, *module, "", {});
    ASSERT_TRUE(drawn.has_value()) << drawn.error().message;
    calm += drawn->failures.is_calm() ? 1 : 0;
    impatient += drawn->failures.retries ? 1 : 0;
    for (const auto& fault : drawn->sim.faults.schedule) {
      ++seen[fault.kind];
      EXPECT_LE(fault.at + fault.span, drawn->sim.faults.heal_at);
      ASSERT_TRUE(drawn->plan.load.failures.has_value());
      const workloads::FailurePlan& plan = *drawn->plan.load.failures;
      EXPECT_LE(fault.at + fault.span, plan.over);
      if (fault.kind == Kind::crash) EXPECT_NE(fault.node, plan.keeper.node);
      back += fault.kind == Kind::crash && fault.span > 0 ? 1 : 0;
      const kv::ClientId killed{fault.node, fault.worker};
      if (fault.kind != Kind::kill) continue;
      EXPECT_NE(killed, plan.keeper);
      EXPECT_NE(std::ranges::find(plan.doomed, killed), plan.doomed.end());
    }
  }
  EXPECT_GT(calm, 80u);
  EXPECT_GT(impatient, 80u);
  EXPECT_GT(back, 10u);
  for (const Kind kind : {Kind::crash, Kind::pause, Kind::nic_stall, Kind::cut, Kind::kill, Kind::one_way,
                          Kind::lossy, Kind::no_buffers, Kind::clock_step})
    EXPECT_GT(seen[kind], 5u) << fabric::sim::name(kind);
}

TEST(Fuzz, UnfairClocksAreDrawnOnRequestOnly) {
  const auto module = support::make_slot_store();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto fair = draw_scenario(seed, *module, "", {});
    const auto unfair = draw_scenario(seed, *module, "", {}, {}, Unfair::clock);
    ASSERT_TRUE(fair && unfair);
    EXPECT_LE(fair->sim.faults.clock_skew, 100'000);
    EXPECT_GT(unfair->sim.faults.clock_skew, fair->sim.faults.clock_skew + 50'000);
  }
}

// Options with which no seed can be run are bad input: no seed is run, and nothing is reported as found.
TEST(Fuzz, WhatNoSeedCanRunWithIsRefused) {
  const auto module = support::make_slot_store();
  FuzzOptions options{.protocol = "slots", .seeds = 40};
  EXPECT_TRUE(check_runnable(options, *module).has_value());
  options.hardware = "none-such";
  const Result<> runnable = check_runnable(options, *module);
  ASSERT_FALSE(runnable.has_value());
  EXPECT_THAT(runnable.error().message, HasSubstr("none-such"));
  for (const char* mode : {"--keep-going", "--mutants", "--coverage"}) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status =
        run_fuzz({"--protocol", "slots", "--seeds", "3", mode, "--hardware", "none-such"}, toys());
    EXPECT_EQ(status, 2) << mode;
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "") << mode;
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("loch fuzz: hardware none-such")) << mode;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << mode;
  }
}

TEST(Fuzz, FlagsAreChecked) {
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--protocol", "slots"});
    const auto options = parse_fuzz(words, toys());
    return options ? std::string("accepted") : options.error().message;
  };
  EXPECT_EQ(refusal({"--seeds", "20", "--time", "5s", "--keep-going", "--set", "slots.spare=1K"}),
            "accepted");
  EXPECT_THAT(refusal({"--seed", "20"}), HasSubstr("did you mean --seeds?"));
  EXPECT_EQ(refusal({"--coverage", "--unfair", "clock"}), "accepted");
  EXPECT_THAT(refusal({"--unfair", "fire"}), HasSubstr("--unfair: \"fire\" is not clock"));
  EXPECT_THAT(refusal({"--backoff", "slow"}), HasSubstr("--backoff: \"slow\" is not "));
  EXPECT_THAT(refusal({"--backoff", "limited", "--corpus", "c"}), HasSubstr("--corpus: leave out"));
  EXPECT_EQ(refusal({"--backoff", "limited"}), "accepted");
  kv::Registry served = toys();
  served.emplace("table", std::make_unique<TableOfWorkers>());
  const auto options = parse_fuzz({"--protocol", "table", "--backoff", "limited"}, served);
  ASSERT_FALSE(options.has_value());
  EXPECT_EQ(options.error().message, "--backoff: the clients of table swap no words; leave it out");
  EXPECT_THAT(refusal({"--seeds", "0"}), HasSubstr("--seeds"));
  EXPECT_THAT(refusal({"--seeds"}), HasSubstr("expected a value"));
  EXPECT_THAT(refusal({"--time", "5"}), HasSubstr("--time"));
  EXPECT_THAT(refusal({"--mutant", "no-lok"}), HasSubstr("did you mean no-lock?"));
  EXPECT_THAT(refusal({"--set", "slots.spair=1"}), HasSubstr("slots.spare"));
  EXPECT_EQ(run_fuzz({"--protocol", "herd"}, toys()), 2);
}

}  // namespace
}  // namespace loch::fuzz
