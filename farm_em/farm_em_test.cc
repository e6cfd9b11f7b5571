// Tests FaRM-em and FaRM-em-var on the simulator and on shared memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "farm_em/layout.h"
#include "farm_em/module.h"
#include "tests/support/store_run.h"

namespace loch::farm {
namespace {

using support::run_store, support::StoreRun, support::total;

std::unique_ptr<kv::Module> module_of(const std::string& protocol) {
  std::vector<std::unique_ptr<kv::Module>> all;
  add_modules(all);
  return std::move(all.at(protocol == "farm-em" ? 0 : 1));
}

// A cluster of one serving node and two nodes that drive load, so that every request crosses the network.
StoreRun shape(const std::string& fabric) {
  StoreRun run;
  run.fabric = fabric;
  run.deploy = {.nodes = 3,
                .client_workers = 2,
                .server_workers = 2,
                .window = 4,
                .key_size = 16,
                .value_size = 32,
                .keys = 200};
  run.deploy.server_nodes = 1;
  run.operations = 4'000;
  return run;
}

TEST(Layout, ReadsOfThePaper) {
  EXPECT_EQ(Layout(Form::inlined, 16, 32).neighbourhood_bytes(), 288u);
  EXPECT_EQ(Layout(Form::variable, 16, 32).neighbourhood_bytes(), 144u);
  EXPECT_EQ(Layout(Form::inlined, 16, 1'024).bucket_elision(32).entry_bytes, 1'040u);
  EXPECT_FALSE(Layout(Form::variable, 16, 1'024).bucket_elision(32).on());
  EXPECT_EQ(Layout(Form::variable, 16, 1'024).value_elision(32).keep_head, 32u);
}

class On : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  [[nodiscard]] std::string fabric() const { return std::get<0>(GetParam()); }
  [[nodiscard]] std::string protocol() const { return std::get<1>(GetParam()); }
  [[nodiscard]] bool is_inlined() const { return protocol() == "farm-em"; }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, On,
                         ::testing::Combine(::testing::Values("sim", "shm"),
                                            ::testing::Values("farm-em", "farm-em-var")));

// Payload bytes of operations, if a key has S_K and a value S_V bytes. A GET READs 6 (S_K + S_V), or in
// farm-em-var 6 (S_K + 8) of the index and S_V of the values. A published PUT has a request of S_K + S_V and
// a reply of 1; a PUT with a request number has 16 bytes more in the request and 7 more in the reply.
TEST_P(On, RequestsAndBytesAreTheDerivedOnes) {
  const auto module = module_of(protocol());
  for (const bool is_numbered : {false, true}) {
    StoreRun run = shape(fabric());
    run.options[protocol() + ".numbered-puts"] = is_numbered ? "true" : "false";
    run.options[protocol() + ".retry-after"] = "10s";  // no message is lost, so no request may be sent again
    const auto outcome = run_store(*module, run);
    ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
    const measure::Tally sum = total(outcome);
    EXPECT_EQ(sum.completed(), 4'000u);
    const auto& gets = sum.of(OpKind::get);
    EXPECT_GT(gets.total(), 1'500u);
    EXPECT_EQ(gets.requests.read, gets.total() * (is_inlined() ? 1 : 2));
    EXPECT_EQ(gets.requests.payload_bytes, gets.total() * (is_inlined() ? 288 : 144 + 32));
    EXPECT_EQ(gets.requests.write + gets.requests.cas + gets.requests.faa + gets.requests.send, 0u);
    const auto& puts = sum.of(OpKind::put);
    EXPECT_GT(puts.total(), 1'500u);
    EXPECT_EQ(puts.requests.write, 2 * puts.total());
    EXPECT_EQ(puts.requests.payload_bytes, puts.total() * (is_numbered ? 64 + 8 : 48 + 1));
    EXPECT_EQ(puts.requests.read + puts.requests.send, 0u);
    EXPECT_EQ(outcome.protocol_counters.at("puts_executed"), static_cast<double>(puts.total()));
    EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
    EXPECT_LT(outcome.protocol_counters.at("absent_keys"), 40);
  }
}

TEST_P(On, LosesNoPutAndExecutesNoneTwice) {
  const auto module = module_of(protocol());
  StoreRun run = shape(fabric());
  run.loss = 0.01;
  run.rc_error = 0.001;
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.outstanding, 0u);
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.completed(), 4'000u);
  EXPECT_GT(outcome.protocol_counters.at("put_retries"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("puts_executed"), static_cast<double>(sum.of(OpKind::put).total()));
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

// With published PUTs, a PUT whose request or reply is lost ends in a time-out and does not hang.
TEST_P(On, PublishedPutsEndWhenTheirAnswerIsLost) {
  const auto module = module_of(protocol());
  StoreRun run = shape(fabric());
  run.loss = 0.01;
  run.options = {{protocol() + ".numbered-puts", "false"}, {protocol() + ".retry-after", "2ms"}};
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(outcome.outstanding, 0u);
  EXPECT_GT(outcome.protocol_counters.at("put_timeouts"), 0);
}

TEST_P(On, EveryNodeServesAndDrivesLoad) {
  const auto module = module_of(protocol());
  StoreRun run = shape(fabric());
  run.deploy.server_nodes = 0;
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(total(outcome).completed(), 4'000u);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(On, OddSizesAndElidedValues) {
  const auto module = module_of(protocol());
  StoreRun run = shape(fabric());
  run.deploy.key_size = 13;
  run.deploy.value_size = 1'001;
  if (fabric() == "sim") run.deploy.kept_value_bytes = 32;
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.completed(), 4'000u);
  const auto& gets = sum.of(OpKind::get);
  EXPECT_EQ(gets.requests.payload_bytes, gets.total() * (is_inlined() ? 6 * 1'014 : 6 * 21 + 1'001));
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST(Module, RefusesToServeWithoutServers) {
  const auto module = module_of("farm-em");
  kv::DeployConfig config;
  config.max_keys = 10;
  const auto refused = module->deploy(config, kv::Options(module->options()), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("servers: farm-em needs at least 1"), std::string::npos);
}

}  // namespace
}  // namespace loch::farm
