// Tests NessieSD on the simulator, over shared memory and, with LOCH_TEST_VERBS set, on this machine's
// RDMA device: results and costs of operations, many concurrent clients, failing connections, dying
// nodes.
#include <gtest/gtest.h>

#include "nessie_sd/module.h"
#include "nessie_sd/store.h"
#include "tests/support/owned_suite.h"
#include "tests/support/owned_tables.h"
#include "tests/support/store_cluster.h"

namespace loch::nessie_sd {
namespace {

using kv::OpStatus;
using support::FabricOptions, support::make_fabric, support::small_deploy;
using support::Lane, support::StoreCluster, support::Worked;

const kv::Module& module() {
  static const std::unique_ptr<kv::Module> made = support::first_module(add_modules);
  return *made;
}

support::OwnedProtocol protocol() {
  return {module(),
          [](kv::Store& store) -> coupled::Tables& { return static_cast<SdStore&>(store).tables(); }};
}

constexpr std::uint32_t key_size = 32, value_size = 600;  // the sizes that small_deploy() uses

class OnFabric : public testing::TestWithParam<std::string> {};

coro::Task<void> one_of_each(Lane* lane, std::uint64_t keys) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Lane::Outcome first = co_await lane->get(key);
    EXPECT_EQ(first.result.status, OpStatus::ok);
    EXPECT_EQ(first.value, key) << "as it was preloaded";
    const Lane::Outcome put = co_await lane->put(key, key + 1000);
    EXPECT_EQ(put.result.status, OpStatus::ok);
    const Lane::Outcome second = co_await lane->get(key);
    EXPECT_EQ(second.value, key + 1000);
    EXPECT_FALSE(second.is_torn);
    const Lane::Outcome removed = co_await lane->remove(key);
    EXPECT_EQ(removed.result.status, OpStatus::ok);
    const Lane::Outcome again = co_await lane->remove(key);
    EXPECT_EQ(again.result.status, OpStatus::not_found);
    const Lane::Outcome gone = co_await lane->get(key);
    EXPECT_EQ(gone.result.status, OpStatus::not_found);
    const Lane::Outcome anew = co_await lane->put(key, key + 2000);
    EXPECT_EQ(anew.result.status, OpStatus::ok);
    const Lane::Outcome last = co_await lane->get(key);
    EXPECT_EQ(last.value, key + 2000);
    // An operation on another node's key costs two WRITEs: a request (GET and DELETE: key size + 16 bytes;
    // PUT: value size + key size + 24 bytes) and a reply (GET: value size + 8 bytes; a miss, PUT and DELETE:
    // 8 bytes). An operation on a key of the client's own node costs none.
    const bool is_local = second.stats.local_accesses > 0;
    const std::uint64_t get = is_local ? 0 : key_size + 16 + value_size + 8;
    const std::uint64_t write = is_local ? 0 : value_size + key_size + 24 + 8;
    const std::uint64_t miss = is_local ? 0 : key_size + 16 + 8;
    EXPECT_EQ(second.stats.payload_bytes, get);
    EXPECT_EQ(put.stats.payload_bytes, write);
    EXPECT_EQ(gone.stats.payload_bytes, miss);
    EXPECT_EQ(removed.stats.payload_bytes, miss);
    for (const Lane::Outcome* outcome : {&second, &put, &gone, &removed}) {
      EXPECT_EQ(outcome->stats.write, is_local ? 0u : 2u);
      EXPECT_EQ(outcome->stats.local_accesses, is_local ? 1u : 0u);
      EXPECT_EQ(outcome->stats.read + outcome->stats.cas + outcome->stats.send, 0u);
    }
  }
}

TEST_P(OnFabric, EveryOperationCostsTwoWrites) {
  StoreCluster run(
      make_fabric(GetParam(), {}), module(),
      {.config = small_deploy(3, 1, 2, 60),
       .options = {{"nessie-sd.retry-after", "500ms"}}});  // no request is sent twice, even on a busy machine
  run.start(0, [](Lane* lane) { return one_of_each(lane, 60); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_EQ(support::expect_sound(protocol().tables_of(run)), 60u);
  EXPECT_EQ(run.counter("requests"), 480);
  EXPECT_EQ(run.counter("requests_refused"), 0);
}

TEST_P(OnFabric, ManyClientsOnFewKeys) {
  const Worked worked =
      support::expect_sound_work(protocol(), GetParam(), {.config = small_deploy(3, 2, 2, 24)}, 36, 500);
  EXPECT_EQ(worked.workers, 6u);
  EXPECT_EQ(worked.other, 0u);
  EXPECT_GT(worked.not_found, 0u);
}

TEST_P(OnFabric, ALoadedTableMovesItsKeys) { support::expect_moves_of_keys(protocol(), GetParam(), 700); }

TEST_P(OnFabric, FailedConnectionsLoseAndRepeatNothing) {
  const auto counters = support::expect_no_loss_by_failures(protocol(), GetParam(), {});
  EXPECT_GT(counters.at("client_reconnects") + counters.at("server_reconnects"), 0);
}

TEST_P(OnFabric, OneNodeMayServeAll) { support::expect_one_node_to_serve(protocol(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Fabrics, OnFabric, testing::ValuesIn(support::fabrics()),
                         [](const auto& info) { return info.param; });

TEST(OnSim, AFullTableSaysSoAndKeepsWhatItHas) { support::expect_full_table_to_say_so(protocol()); }

TEST(OnSim, ADeadNodeIsAnError) { support::expect_errors_of_a_dead_node(protocol()); }

// A node comes back without its server workers. The declaration that it was lost is written to it, but no
// server worker reacts, and the declaring client must learn that within a bounded time.
struct Declared {
  kv::Repair repair;
  Nanos span = 0;
};
coro::Task<void> declare_a_node_without_workers(StoreCluster* run, Lane* lane, Declared* seen) {
  co_await lane->worker().sleep_until(5'000'000);
  const Nanos began = lane->worker().now();
  kv::Repair repair = co_await run->store().declare_lost(lane->worker(), {2});
  seen->repair = std::move(repair);
  seen->span = lane->worker().now() - began;
}

TEST(OnSim, ADeclarationThatNobodyTakesEnds) {
  FabricOptions options;
  options.deadline = 1'000'000'000;
  options.faults.schedule.push_back({.kind = fabric::sim::ScheduledFault::Kind::crash,
                                     .node = 2,
                                     .worker = 0,
                                     .at = 400'000,
                                     .span = 1'000'000});
  StoreCluster run(make_fabric("sim", options), module(), {.config = small_deploy(3, 1, 2, 24)});
  Declared seen;
  run.start(0, [&](Lane* lane) { return declare_a_node_without_workers(&run, lane, &seen); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_FALSE(seen.repair.is_complete);
  EXPECT_EQ(seen.repair.counts, (std::map<std::string, std::uint64_t>{{"nodes_not_back", 1}}));
  EXPECT_GT(seen.span, 900'000) << "49 pauses of 20 us and 51 requests";
  EXPECT_LT(seen.span, 2'000'000);
}

// The simulation keeps only the first bytes of each value: a GET has to return these bytes, and the counted
// payload bytes have to be those of whole values.
coro::Task<void> stamps(Lane* lane) {
  for (std::uint64_t key = 0; key < 30; ++key) {
    const Lane::Outcome put = co_await lane->put(key, 7'000 + key);
    const Lane::Outcome got = co_await lane->get(key);
    EXPECT_EQ(got.value, 7'000 + key);
    EXPECT_EQ(got.result.value.size, 16'384u);
    EXPECT_EQ(got.result.value.kept, 32u);
    if (got.stats.write == 0) continue;
    EXPECT_EQ(got.stats.payload_bytes, 16'384u + 8 + key_size + 16);
    EXPECT_EQ(put.stats.payload_bytes, 16'384u + key_size + 24 + 8);
  }
}

TEST(OnSim, ElidedValuesKeepTheirStamps) {
  kv::DeployConfig config = small_deploy(3, 1, 2, 30);
  config.value_size = 16'384;
  config.kept_value_bytes = 32;
  StoreCluster run(make_fabric("sim", {}), module(), {.config = config});
  run.start(0, [](Lane* lane) { return stamps(lane); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
}

TEST(Deploy, ImpossibleCombinationsAreRefusedInOneLine) {
  const kv::Options options(module().options());
  kv::DeployConfig config = support::expect_deployments(protocol());
  for (const std::uint32_t bytes : {0U, (1U << 30) + 1}) {
    kv::DeployConfig odd = config;
    odd.value_size = bytes;
    const auto refused = module().deploy(odd, options, "");
    ASSERT_FALSE(refused.has_value()) << bytes;
    EXPECT_NE(refused.error().message.find("value-size"), std::string::npos);
  }
  config.memory_bytes = 1000;
  const auto small_memory = module().deploy(config, options, "");
  ASSERT_FALSE(small_memory.has_value());
  EXPECT_NE(small_memory.error().message.find("keys"), std::string::npos);
}

}  // namespace
}  // namespace loch::nessie_sd
