// Tests newstore under load, on the fabrics sim (simulator) and shm (shared memory).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "newstore/module.h"
#include "tests/support/store_run.h"

namespace loch::newstore {
namespace {

using support::run_store, support::StoreRun, support::total;

class Newstore : public ::testing::TestWithParam<const char*> {
 protected:
  Newstore() { add_modules(modules_); }
  [[nodiscard]] StoreRun shape() const {
    StoreRun run;
    run.fabric = GetParam();
    run.deploy = {
        .nodes = 3, .client_workers = 2, .window = 2, .key_size = 16, .value_size = 200, .keys = 64};
    run.deploy.server_workers = module().default_servers();
    run.operations = 2'000;
    return run;
  }
  [[nodiscard]] const kv::Module& module() const { return *modules_.front(); }

 private:
  std::vector<std::unique_ptr<kv::Module>> modules_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, Newstore, ::testing::Values("sim", "shm"));

// Number of operations that ended in an accepted way. A few operations may give up on a key whose lock is
// always taken; on shared memory (fabric shm) the thread that holds the lock may be preempted for a long
// time.
std::uint64_t ended(const measure::Tally& sum) {
  std::uint64_t all = sum.completed();
  for (const measure::KindTally& kind : sum.kinds)
    all += kind.by_status[static_cast<std::size_t>(kv::OpStatus::conflict)];
  return all;
}

TEST_P(Newstore, EveryOperationEndsAndNoValueIsTorn) {
  const auto outcome = run_store(module(), shape());
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  const measure::Tally sum = total(outcome);
  EXPECT_GE(ended(sum), 2'000u);
  EXPECT_GE(sum.completed(), 1'000u);
  EXPECT_EQ(sum.corrupt, 0u);
}

TEST_P(Newstore, OneNodeServesAndTheOthersAsk) {
  StoreRun run = shape();
  run.deploy.server_nodes = 1;
  const auto outcome = run_store(module(), run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_GE(ended(total(outcome)), 2'000u);
  EXPECT_EQ(total(outcome).corrupt, 0u);
}

}  // namespace
}  // namespace loch::newstore
