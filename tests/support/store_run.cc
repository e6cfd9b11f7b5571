// Runs a protocol with a closed loop of GETs and PUTs, for its tests.
#include "tests/support/store_run.h"

#include "tests/support/fabrics.h"

namespace loch::support {
namespace {

// On the simulator lost messages are simulated; on shared memory (fabric shm) a decorator that injects faults
// drops them.
FabricOptions options_of(const StoreRun& run) {
  FabricOptions options{.nodes = run.deploy.nodes, .seed = run.seed, .hardware = run.hardware};
  options.losses.seed = run.seed;
  options.losses.rc_error = run.rc_error;
  if (run.fabric == "sim") {
    options.faults.uc_loss = options.faults.ud_loss = run.loss;
    options.faults.ud_reorder = run.reorder;
    options.faults.ud_reorder_span = run.reorder_span;
  } else {
    options.losses.uc_loss = options.losses.ud_loss = run.loss;
  }
  return options;
}

}  // namespace

workloads::RunOutcome run_store(const kv::Module& module, StoreRun run) {
  workloads::RunPlan plan;
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
  plan.load.conflicts = run.conflicts;
  plan.load.mix = {.get = run.get, .put = 1 - run.get, .remove = 0, .insert = 0, .read_modify_write = 0};
  plan.load.operations = run.operations;
  plan.load.seed = run.seed;
  const std::unique_ptr<fabric::Fabric> fabric = make_fabric(run.fabric, options_of(run));
  auto outcome = workloads::run_load(*fabric, plan);
  check(outcome);
  return std::move(*outcome);
}

measure::Tally total(const workloads::RunOutcome& outcome) {
  measure::Tally sum;
  for (const measure::NodePart& node : outcome.nodes) sum.merge(node.tally);
  return sum;
}

}  // namespace loch::support
