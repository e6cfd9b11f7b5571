// The sequencers over the simulator and over this machine's memory: no number comes twice.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/cli/bench_options.h"
#include "common/cli/fuzz.h"
#include "sequencer/module.h"
#include "workloads/testing/store_run.h"

namespace loch::sequencer {
namespace {

using workloads::testing::run_store, workloads::testing::StoreRun, workloads::testing::total;

kv::Registry sequencers() {
  std::vector<std::unique_ptr<kv::Module>> all;
  add_modules(all);
  kv::Registry registry;
  for (auto& module : all) {
    std::string name(module->name());
    registry.emplace(std::move(name), std::move(module));
  }
  return registry;
}

// One node serves, two drive load: every request crosses the network.
StoreRun shape(const std::string& fabric, const kv::Module& module) {
  StoreRun run;
  run.fabric = fabric;
  run.deploy = {.nodes = 3,
                .client_workers = 2,
                .server_workers = module.default_servers(),
                .window = 8,
                .key_size = 16,
                .value_size = 32,
                .keys = 10};
  run.deploy.server_nodes = 1;
  run.operations = 5'000;
  return run;
}

struct Case {
  const char* fabric;
  const char* protocol;
};

class Each : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  [[nodiscard]] const kv::Module& module() const { return *registry_.at(std::get<1>(GetParam())); }
  [[nodiscard]] std::string fabric() const { return std::get<0>(GetParam()); }
  [[nodiscard]] bool is(const std::string& protocol) const { return std::get<1>(GetParam()) == protocol; }

  kv::Registry registry_ = sequencers();
};
constexpr auto protocols = {"seq-atomic"};
INSTANTIATE_TEST_SUITE_P(Sequencers, Each,
                         ::testing::Combine(::testing::Values("sim", "shm"), ::testing::ValuesIn(protocols)));

TEST_P(Each, GivesEveryNumberOnce) {
  StoreRun run = shape(fabric(), module());
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(total(outcome).completed(), 5'000u);
  EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
  EXPECT_EQ(outcome.protocol_counters.at("numbers_twice"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("numbers_far"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(Each, ServesItsOwnNodeToo) {
  StoreRun run = shape(fabric(), module());
  run.deploy.server_nodes = 0;
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.protocol_counters.at("numbers"), 5'000);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(Each, LosesNothingAndHangsNever) {
  StoreRun run = shape(fabric(), module());
  run.loss = 0.01;
  run.rc_error = is("seq-atomic") ? 0.003 : 0;
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.outstanding, 0u);
  EXPECT_EQ(total(outcome).completed(), 5'000u);
  EXPECT_GT(outcome.protocol_counters.at("retries"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(Each, NothingIsFoundByFuzzing) {
  if (fabric() != "sim") GTEST_SKIP() << "fuzzing is of the simulation";
  cli::FuzzOptions options;
  options.protocol = std::get<1>(GetParam());
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const cli::FuzzFinding finding = cli::fuzz_seed(seed, options, module());
    EXPECT_EQ(finding.verdict, cli::FuzzVerdict::holds) << seed << ": " << finding.reason;
  }
}

// A number is one FETCH_AND_ADD of 8 bytes.
TEST(SeqAtomic, RequestsAndBytesAreTheDerivedOnes) {
  const kv::Registry registry = sequencers();
  const kv::Module& module = *registry.at("seq-atomic");
  for (const char* fabric : {"sim", "shm"}) {
    const measure::Tally sum = total(run_store(module, shape(fabric, module)));
    for (const measure::OpKind kind : {measure::OpKind::get, measure::OpKind::put}) {
      const measure::KindTally& all = sum.of(kind);
      EXPECT_GT(all.total(), 2'000u);
      EXPECT_EQ(all.requests.faa, all.total());
      EXPECT_EQ(all.requests.payload_bytes, 8 * all.total());
      EXPECT_EQ(all.requests.read + all.requests.write + all.requests.cas + all.requests.send, 0u);
    }
  }
}

// What has no values says so in one line and runs; a history of it would be none.
TEST(Bench, VerifyingIsDeclinedInOneLine) {
  const kv::Registry registry = sequencers();
  const auto options = cli::parse_bench({"--protocol", "seq-atomic", "--verify"}, registry);
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_FALSE(options->load.verify);
  ASSERT_EQ(options->notes.size(), 1u);
  EXPECT_EQ(
      options->notes.front(),
      "--verify: seq-atomic gives out numbers and stores no values (its own check, that none comes twice, "
      "is always on); no value was verified");
  const auto refused = cli::parse_bench({"--protocol", "seq-atomic", "--history", "h.jsonl"}, registry);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("--history: seq-atomic gives out numbers"), std::string::npos);
}

}  // namespace
}  // namespace loch::sequencer
