// Tests a node that loses its memory and restarts, for every store that promises to serve the node's keys
// again. Until the node is declared lost, reading one of its keys is an error and never a miss; afterwards
// every key can be read and written, and the clients of the restarted node work alongside the others.
#include <gtest/gtest.h>

#include <algorithm>

#include "app/cli/judging.h"
#include "app/cli/registry.h"
#include "common/fabric/sim/sim.h"
#include "workloads/run.h"

namespace loch::fuzz {
namespace {

constexpr Nanos crash_at = 1'000'000, back_at = 1'600'000, declared_at = 4'000'000;

class Keep final : public workloads::OperationLog {
 public:
  Keep(std::vector<check::Operation>& all, std::int32_t client) : all_(all), client_(client) {}
  ~Keep() override {
    if (open_) all_.push_back(*open_);
  }
  void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value, Nanos at) override {
    open_ =
        check::Operation{client_, kind, Outcome::unknown, std::string(key), std::nullopt, at, std::nullopt};
    if (value) open_->value = *value;
  }
  void record(const check::OperationView& o) override {
    open_.reset();
    all_.push_back({o.client, o.kind, o.outcome, std::string(o.key),
                    o.value ? std::optional<std::string>(*o.value) : std::nullopt, o.invoke_ns, o.return_ns});
  }

 private:
  std::vector<check::Operation>& all_;
  std::int32_t client_;
  std::optional<check::Operation> open_;
};

struct Seen {
  workloads::RunOutcome outcome;
  std::vector<check::Operation> history;
  check::CheckReport report;
};

Seen rejoin(const kv::Module& module, const std::map<std::string, std::string>& settings) {
  fabric::sim::SimConfig sim;
  sim.nodes = 3;
  sim.hardware = fabric::sim::load_hardware("connectx3-10gbe").value();
  sim.hardware.nic.retry_timeout_ns = 50'000;
  sim.hardware.nic.retry_count = 2;
  sim.deadline = 5'000'000'000;
  sim.faults.schedule.push_back({.kind = fabric::sim::ScheduledFault::Kind::crash,
                                 .node = 1,
                                 .at = crash_at,
                                 .span = back_at - crash_at});
  workloads::RunPlan plan;
  plan.module = &module;
  plan.options = kv::Options(module.options());
  for (const auto& [key, value] : settings) LOCH_CHECK(plan.options.set(key, value).has_value(), "{}", key);
  plan.deploy = {.nodes = 3,
                 .client_workers = 2,
                 .server_workers = module.default_servers(),
                 .window = 2,
                 .key_size = 16,
                 .value_size = 64,
                 .keys = 24,
                 .max_keys = 24,
                 .kept_value_bytes = 64,
                 .memory_bytes = 1 << 26};
  plan.records = {24, 24, 16, 64};
  plan.load.mix = {.get = 0.8, .put = 0.2, .remove = 0, .insert = 0, .read_modify_write = 0};
  plan.load.duration = 6'000'000;
  plan.load.think = 10'000;
  plan.load.final_sweep = true;
  plan.load.failures = workloads::FailurePlan{.keeper = {0, 0},
                                              .doomed = {{1, 0}, {1, 1}},
                                              .crashed = {1},
                                              .repairs = {{.at = declared_at, .dead = {}, .lost = {1}}},
                                              .excuses = {},
                                              .over = declared_at};
  Seen run;
  plan.logs = [&run](std::int32_t client) { return std::make_unique<Keep>(run.history, client); };
  auto fabric = fabric::sim::make_sim(sim);
  LOCH_CHECK(fabric.has_value(), "a fabric");
  auto outcome = workloads::run_load(**fabric, plan);
  LOCH_CHECK(outcome.has_value(), "{}", outcome.error().message);
  run.outcome = std::move(*outcome);
  run.report =
      check::check_operations(run.history, cli::judging(module, plan.options, check::Initial::present));
  return run;
}

class Rejoin : public testing::TestWithParam<std::pair<const char*, std::map<std::string, std::string>>> {};

TEST_P(Rejoin, WhatItHeldIsAnErrorUntilItIsDeclaredLost) {
  const auto& [protocol, settings] = GetParam();
  const kv::Registry registry = cli::make_registry();
  const kv::Module& module = *registry.at(protocol);
  kv::Options options(module.options());
  const kv::Promise promise = module.promise(kv::Loss::memory_lost, options);
  EXPECT_TRUE(promise == kv::Promise::after_return || promise == kv::Promise::after_declared);
  const Seen seen = rejoin(module, settings);
  EXPECT_EQ(seen.outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(seen.report.verdict(), check::Verdict::holds)
      << (seen.report.failures.empty() ? "" : seen.report.failures.front().reason);
  EXPECT_TRUE(seen.outcome.stuck.empty()) << seen.outcome.stuck.front();
  EXPECT_TRUE(seen.outcome.unsound.empty()) << seen.outcome.unsound.front();
  EXPECT_EQ(seen.outcome.repaired.at("restarts"), 1u);
  EXPECT_EQ(seen.outcome.repaired.at("nodes_declared"), 1u);
  std::uint32_t errors = 0, misses_before = 0, misses_after = 0, by_second_incarnation = 0;
  constexpr std::int32_t first_of_second_incarnation = 3 * 2 * 2;
  for (const check::Operation& o : seen.history) {
    if (o.kind != OpKind::get || !o.return_ns) continue;
    const bool is_between = o.invoke_ns > crash_at && *o.return_ns < declared_at;
    errors += is_between && o.outcome == Outcome::failed ? 1 : 0;
    misses_before += o.outcome == Outcome::not_found && *o.return_ns < declared_at ? 1 : 0;
    misses_after += o.outcome == Outcome::not_found && o.invoke_ns > declared_at ? 1 : 0;
    by_second_incarnation += o.client >= first_of_second_incarnation && o.outcome == Outcome::ok ? 1 : 0;
  }
  EXPECT_GT(errors, 0u);
  EXPECT_EQ(misses_before, 0u);
  EXPECT_GT(misses_after, 0u) << "of what was lost";
  EXPECT_GT(by_second_incarnation, 50u);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, Rejoin,
    testing::Values(
        std::pair{"nessie", std::map<std::string, std::string>{{"nessie.expiry", "3ms"},
                                                               {"nessie.reconnect-timeout", "200us"}}},
        std::pair{"nessie-sd", std::map<std::string, std::string>{{"nessie-sd.give-up-after", "500us"},
                                                                  {"nessie-sd.retry-after", "100us"},
                                                                  {"nessie-sd.reconnect-timeout", "200us"}}},
        std::pair{"nessie-hy", std::map<std::string, std::string>{{"nessie-hy.give-up-after", "500us"},
                                                                  {"nessie-hy.retry-after", "100us"},
                                                                  {"nessie-hy.expiry", "2ms"},
                                                                  {"nessie-hy.cache", "true"},
                                                                  {"nessie-hy.cache-fraction", "1"},
                                                                  {"nessie-hy.reconnect-timeout", "200us"}}},
        std::pair{"pilaf", std::map<std::string, std::string>{{"pilaf.patience", "500us"},
                                                              {"pilaf.reply-timeout", "100us"},
                                                              {"pilaf.reconnect-timeout", "200us"}}},
        std::pair{"pilaf", std::map<std::string, std::string>{{"pilaf.messages", "ud"},
                                                              {"pilaf.patience", "500us"},
                                                              {"pilaf.reply-timeout", "100us"},
                                                              {"pilaf.reconnect-timeout", "200us"}}},
        std::pair{"pilaf-vo", std::map<std::string, std::string>{{"pilaf.patience", "500us"},
                                                                 {"pilaf.reply-timeout", "100us"},
                                                                 {"pilaf.reconnect-timeout", "200us"}}}),
    [](const auto& info) {
      std::string name = std::string(info.param.first) + "_" + std::to_string(info.index);
      std::ranges::replace(name, '-', '_');
      return name;
    });

// Pilaf promises no service after a node has lost its memory if it runs over UC, because a client over UC
// does not learn that its peer has restarted. Pilaf with a log does not promise it either.
TEST(Promises, PilafOverUcOrWithALogDoesNotTakeANodeBack) {
  const kv::Registry registry = cli::make_registry();
  const kv::Module& pilaf = *registry.at("pilaf");
  kv::Options options(pilaf.options());
  ASSERT_TRUE(options.set("pilaf.messages", "uc").has_value());
  EXPECT_EQ(pilaf.promise(kv::Loss::memory_lost, options), kv::Promise::unavailable);
  ASSERT_TRUE(options.set("pilaf.messages", "rc").has_value());
  ASSERT_TRUE(options.set("pilaf.log", "/nonexistent/log").has_value());
  EXPECT_EQ(pilaf.promise(kv::Loss::memory_lost, options), kv::Promise::unavailable);
}

}  // namespace
}  // namespace loch::fuzz
