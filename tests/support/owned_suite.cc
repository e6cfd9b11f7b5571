// Implements the checks for all protocols whose server workers own the tables (NessieSD, NessieHY).
#include "tests/support/owned_suite.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/owned_tables.h"
#include "tests/support/store_loads.h"

namespace loch::support {

Worked expect_sound_work(const OwnedProtocol& protocol, const std::string& fabric,
                         const StoreCluster::Shape& shape, std::uint64_t keys, std::uint32_t operations) {
  StoreCluster run(make_fabric(fabric, {.nodes = shape.config.nodes}), protocol.module, shape);
  Tally tally;
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&](Lane* lane) { return work(lane, keys, operations, &tally); });
  EXPECT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_EQ(tally.torn, 0u);
  EXPECT_EQ(tally.foreign, 0u);
  expect_sound(protocol.tables_of(run));
  Worked worked{run.workers(), tally.ok, tally.not_found, tally.other, run.store().counters()};
  EXPECT_EQ(worked.operations(), run.workers() * operations);
  return worked;
}

void expect_moves_of_keys(const OwnedProtocol& protocol, const std::string& fabric, std::uint32_t operations,
                          const std::map<std::string, std::string>& options) {
  kv::DeployConfig config = small_deploy(2, 2, 1, 340);
  config.max_keys = 420;  // 420 keys nearly fill the table; those that are not preloaded are inserted
  StoreCluster::Shape shape{.config = config, .options = options};
  shape.options[protocol.option("load-factor")] = "0.85";
  const Worked worked = expect_sound_work(protocol, fabric, shape, 420, operations);
  EXPECT_GT(worked.counters.at("moves"), 0);
}

void expect_one_node_to_serve(const OwnedProtocol& protocol, const std::string& fabric) {
  kv::DeployConfig config = small_deploy(3, 2, 2, 24);
  config.server_nodes = 1;
  const Worked worked = expect_sound_work(protocol, fabric, {.config = config}, 36, 300);
  EXPECT_EQ(worked.workers, 4u);
  EXPECT_EQ(worked.other, 0u);
}

std::map<std::string, double> expect_no_loss_by_failures(const OwnedProtocol& protocol,
                                                         const std::string& fabric,
                                                         const std::map<std::string, std::string>& options) {
  FabricOptions lossy;
  lossy.losses = {.seed = 9, .rc_error = 0.01, .rc_error_executed = 0.5};
  StoreCluster::Shape shape{.config = small_deploy(3, 2, 2, 24), .options = options};
  shape.options[protocol.option("retry-after")] = "5ms";
  shape.options[protocol.option("give-up-after")] = "60s";
  shape.options[protocol.option("reconnect-timeout")] = "10s";
  StoreCluster run(make_fabric(fabric, lossy), protocol.module, shape);
  std::vector<std::uint64_t> wrong(run.workers());
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&wrong, w](Lane* lane) { return write_and_read(lane, 4 * w, &wrong[w]); });
  EXPECT_EQ(run.run(), fabric::RunEnd::finished);
  for (const std::uint64_t each : wrong) EXPECT_EQ(each, 0u);
  EXPECT_GT(run.counter("request_retries"), 0);
  return run.store().counters();
}

void expect_full_table_to_say_so(const OwnedProtocol& protocol) {
  kv::DeployConfig config = small_deploy(2, 1, 1, 0);
  config.max_keys = 40;
  StoreCluster run(make_fabric("sim", {.nodes = 2}), protocol.module,
                   {.config = config, .options = {{protocol.option("load-factor"), "0.9"}}});
  std::uint64_t full = 0;
  run.start(0, [&](Lane* lane) { return fill(lane, 80, &full); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_GT(full, 30u);
  EXPECT_EQ(expect_sound(protocol.tables_of(run)), 80 - full);
  EXPECT_EQ(run.counter("table_full"), static_cast<double>(full));
}

void expect_errors_of_a_dead_node(const OwnedProtocol& protocol) {
  FabricOptions options;
  options.faults.schedule.push_back(
      {.kind = fabric::sim::ScheduledFault::Kind::crash, .node = 2, .worker = 0, .at = 400'000, .span = 0});
  StoreCluster run(make_fabric("sim", options), protocol.module,
                   {.config = small_deploy(3, 2, 1, 24),
                    .options = {{protocol.option("give-up-after"), "100ms"},
                                {protocol.option("reconnect-timeout"), "2ms"}}});
  Deaths seen;
  for (std::size_t w = 0; w < 4; ++w) run.start(w, [&](Lane* lane) { return until_dead(lane, &seen); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_GT(seen.unknown, 0u);
  EXPECT_GT(seen.errors, 100u);
  EXPECT_GT(seen.ok, 500u);
}

kv::DeployConfig expect_deployments(const OwnedProtocol& protocol) {
  const kv::Module& module = protocol.module;
  const kv::Options options(module.options());
  kv::DeployConfig config = small_deploy(3, 1, 0, 10);
  EXPECT_FALSE(module.deploy(config, options, "").has_value());
  config.server_workers = 1;
  EXPECT_TRUE(module.deploy(config, options, "").has_value());
  EXPECT_FALSE(module.deploy(config, options, "no-such-mutant").has_value());
  for (const auto& [name, mutant] : module.mutants())
    EXPECT_TRUE(module.deploy(config, options, name).has_value()) << name;
  return config;
}

}  // namespace loch::support
