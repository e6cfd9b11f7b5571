#include "workloads/testing/store_run.h"

#include "common/base/check.h"
#include "common/fabric/count/count.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"

namespace loch::workloads::testing {
namespace {

template <typename R>
void check(const R& result) {
  LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
}

std::unique_ptr<fabric::Fabric> open_lossy(const StoreRun& run) {
  Result<std::unique_ptr<fabric::Fabric>> fabric = fail(ErrorCode::internal, "");
  const bool is_sim = run.fabric == "sim";
  if (is_sim) {
    fabric::sim::SimConfig config;
    config.nodes = run.deploy.nodes;
    config.seed = run.seed;
    auto hardware = fabric::sim::load_hardware(run.hardware);
    check(hardware);
    config.hardware = std::move(*hardware);
    config.faults.uc_loss = config.faults.ud_loss = run.loss;
    config.faults.ud_reorder = run.reorder;
    config.faults.ud_reorder_span = run.reorder_span;
    fabric = fabric::sim::make_sim(config);
  } else {
    fabric = fabric::shm::make_shm({.nodes = run.deploy.nodes, .seed = run.seed});
  }
  check(fabric);
  fabric::FaultConfig faults;
  faults.seed = run.seed;
  faults.rc_error = run.rc_error;
  if (!is_sim) faults.uc_loss = faults.ud_loss = run.loss;
  auto faulty = fabric::inject_faults(std::move(*fabric), faults);
  check(faulty);
  return fabric::count_requests(std::move(*faulty), {});
}

}  // namespace

RunOutcome run_store(const kv::Module& module, StoreRun run) {
  RunPlan plan;
  plan.module = &module;
  plan.mutant = run.mutant;
  plan.options = kv::Options(module.options());
  for (const auto& [key, value] : run.options) check(plan.options.set(key, value));
  kv::DeployConfig& deploy = run.deploy;
  deploy.max_keys = std::max(deploy.max_keys, deploy.keys);
  if (deploy.kept_value_bytes == 0) deploy.kept_value_bytes = deploy.value_size;
  if (deploy.memory_bytes == 0) deploy.memory_bytes = std::uint64_t{1} << 30;
  deploy.seed = run.seed;
  plan.deploy = deploy;
  plan.records = {deploy.keys, deploy.max_keys, deploy.key_size, deploy.value_size};
  plan.load.mix = {.get = run.get, .put = 1 - run.get, .remove = 0, .insert = 0, .read_modify_write = 0};
  plan.load.operations = run.operations;
  plan.load.seed = run.seed;
  const std::unique_ptr<fabric::Fabric> fabric = open_lossy(run);
  auto outcome = run_load(*fabric, plan);
  check(outcome);
  return std::move(*outcome);
}

measure::Tally total(const RunOutcome& outcome) {
  measure::Tally sum;
  for (const measure::NodePart& node : outcome.nodes) sum.merge(node.tally);
  return sum;
}

}  // namespace loch::workloads::testing
