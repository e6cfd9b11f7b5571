// Tests DrTM-em on the simulator and on shared memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "drtm_em/layout.h"
#include "drtm_em/module.h"
#include "tests/support/store_run.h"

namespace loch::drtm {
namespace {

using support::run_store, support::StoreRun, support::total;

std::unique_ptr<kv::Module> module_of() {
  std::vector<std::unique_ptr<kv::Module>> all;
  add_modules(all);
  return std::move(all.front());
}

// A cluster of one serving node and two nodes that drive load, so that every request crosses the network.
StoreRun shape(const std::string& fabric) {
  StoreRun run;
  run.fabric = fabric;
  run.deploy = {.nodes = 3, .client_workers = 2, .window = 8, .key_size = 16, .value_size = 32, .keys = 64};
  run.deploy.server_nodes = 1;
  run.operations = 4'000;
  return run;
}

TEST(Layout, AnItemOfThePaper) {
  const ItemLayout item(16, 32);
  EXPECT_EQ(item.bytes(), 64u);
  EXPECT_EQ(item.state_at(), 24u);
  EXPECT_EQ(item.value_at(), 32u);
  EXPECT_FALSE(item.elision(32).on());
  const ItemLayout odd(13, 1'001);
  EXPECT_EQ(odd.bytes() % 8, 0u);
  EXPECT_EQ(odd.elision(32).entry_bytes, odd.bytes());
  EXPECT_EQ(odd.elision(32).keep_head, odd.value_at() + 32);
}

class On : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, On, ::testing::Values("sim", "shm"));

// A GET is one READ of 64 bytes; a PUT is two atomics of 8 bytes.
TEST_P(On, RequestsAndBytesAreTheDerivedOnes) {
  const auto module = module_of();
  for (const char* form : {"faa", "cas"}) {
    StoreRun run = shape(GetParam());
    run.options = {{"drtm-em.atomics", form}, {"drtm-em.attempts", "1"}};
    const auto outcome = run_store(*module, run);
    ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
    const measure::Tally sum = total(outcome);
    const auto& gets = sum.of(OpKind::get);
    EXPECT_GT(gets.total(), 1'500u);
    EXPECT_EQ(gets.completed(), gets.total());
    EXPECT_EQ(gets.requests.read, gets.total());
    EXPECT_EQ(gets.requests.payload_bytes, 64 * gets.total());
    EXPECT_EQ(gets.requests.cas + gets.requests.faa + gets.requests.write, 0u);
    const auto& puts = sum.of(OpKind::put);
    const std::uint64_t atomics = puts.requests.faa + puts.requests.cas;
    // With a single attempt, a PUT that finds the item locked ends after its first CAS.
    EXPECT_EQ(atomics, 2 * puts.completed() + (puts.total() - puts.completed()));
    if (form == std::string("faa")) EXPECT_EQ(puts.completed(), puts.total());
    EXPECT_EQ(puts.requests.payload_bytes, 8 * atomics);
    EXPECT_EQ(puts.requests.read + puts.requests.write, 0u);
    EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
  }
}

// Both additions of a PUT are posted at once: the PUT still makes two requests, and no addition is lost or
// executed twice.
TEST_P(On, AdditionsThatArePostedTogetherAreTheSame) {
  const auto module = module_of();
  StoreRun run = shape(GetParam());
  run.options = {{"drtm-em.atomics", "faa-together"}, {"drtm-em.patience", "1s"}};
  for (const double errors : {0.0, 0.003}) {
    run.rc_error = errors;
    const auto outcome = run_store(*module, run);
    ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
    const measure::Tally sum = total(outcome);
    const auto& puts = sum.of(OpKind::put);
    EXPECT_EQ(puts.requests.faa, 2 * puts.total());
    EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
    if (errors == 0.0) EXPECT_EQ(puts.completed(), puts.total());
  }
}

TEST(OnSim, AdditionsThatArePostedTogetherOverlap) {
  const auto module = module_of();
  StoreRun run = shape("sim");
  run.deploy.window = 1;
  run.deploy.client_workers = 1;
  run.get = 0;
  const auto mean = [&](const char* form) {
    run.options = {{"drtm-em.atomics", form}};
    return total(run_store(*module, run)).of(OpKind::put).latency_ns.mean();
  };
  EXPECT_LT(mean("faa-together"), 0.75 * mean("faa"));
}

TEST_P(On, LocksAreHeldByOneAndReleased) {
  const auto module = module_of();
  StoreRun run = shape(GetParam());
  run.deploy.keys = 4;  // few keys, so that clients conflict
  run.get = 0.1;
  run.options = {{"drtm-em.atomics", "cas"}, {"drtm-em.attempts", "10000"}};
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.completed(), 4'000u);
  EXPECT_GT(outcome.protocol_counters.at("lock_conflicts"), 0);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST_P(On, FailedRequestsLoseNoAdditionAndNoLock) {
  const auto module = module_of();
  for (const char* form : {"faa", "cas"}) {
    StoreRun run = shape(GetParam());
    run.options = {{"drtm-em.atomics", form}, {"drtm-em.attempts", "10000"}, {"drtm-em.patience", "1s"}};
    run.rc_error = 0.003;
    const auto outcome = run_store(*module, run);
    ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
    EXPECT_EQ(outcome.outstanding, 0u);
    EXPECT_GT(outcome.protocol_counters.at("reconnects"), 0);
    EXPECT_EQ(outcome.protocol_counters.at("violations"), 0) << form;
    EXPECT_GT(total(outcome).completed(), 3'000u);
  }
}

TEST_P(On, EveryNodeHoldsItemsAndDrivesLoad) {
  const auto module = module_of();
  StoreRun run = shape(GetParam());
  run.deploy.server_nodes = 0;
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(total(outcome).completed(), 4'000u);
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

// The outstanding operations of a worker post through shared lists: fewer than one request in eight is
// signaled, and there is less than one doorbell for every eight requests.
TEST(OnSim, SlotsShareDoorbellsAndCompletions) {
  const auto module = module_of();
  StoreRun run = shape("sim");
  run.deploy.window = 64;
  run.operations = 20'000;
  const auto counters = run_store(*module, run).protocol_counters;
  EXPECT_GE(counters.at("posted_requests"), 20'000);
  EXPECT_LT(counters.at("signaled_requests"), counters.at("posted_requests") / 8);
  EXPECT_LT(counters.at("posting_lists"), counters.at("posted_requests") / 8);
}

TEST(OnSim, ElidedValuesTakeTheSameWay) {
  const auto module = module_of();
  StoreRun run = shape("sim");
  run.deploy.value_size = 1'024;
  run.deploy.kept_value_bytes = 32;
  const auto outcome = run_store(*module, run);
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.of(OpKind::get).requests.payload_bytes, 1'056 * sum.of(OpKind::get).total());
  EXPECT_EQ(outcome.protocol_counters.at("violations"), 0);
}

TEST(Module, RefusesServers) {
  const auto module = module_of();
  kv::DeployConfig config;
  config.max_keys = 10;
  config.server_workers = 1;
  const auto refused = module->deploy(config, kv::Options(module->options()), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("servers: drtm-em has no server workers"), std::string::npos);
}

}  // namespace
}  // namespace loch::drtm
