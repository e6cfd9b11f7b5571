// `loch bench`: one measurement, from its flags to its result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "app/cli/fabrics.h"
#include "common/check/history.h"
#include "common/measure/result.h"
#include "workloads/run.h"

namespace loch::cli {

// Runs `loch bench`. Exit status: 0; 1: the run failed; 2: bad input; 130: interrupted.
[[nodiscard]] int run_bench(const std::vector<std::string>& arguments, const kv::Registry& registry);

struct RunResult {
  // true: `point` has the results of all processes; false: another process reports them
  bool is_joint = false;
  measure::PointResult point;
};
// One run of a point (a measurement with one set of flags) in this process, with its open fabric, its history
// and its deployed store.
struct PointRun {
  std::uint32_t repeat = 0;
  OpenFabric open;
  std::unique_ptr<check::HistoryWriter> history;  // null: no history is recorded
  workloads::RunPlan plan;
  std::unique_ptr<workloads::Deployed> deployed;  // null before set_up_point()
  std::string note;                               // a note for the result; empty: none
  bool keeps_store = false;  // true: finish_point() leaves the store deployed, for a further load
  // After finish_point(): whether the kept store is fit for a further load (RunOutcome::is_fit_for_more), and
  // the network was not sick.
  bool is_fit_for_more = false;
};
[[nodiscard]] Result<std::unique_ptr<PointRun>> open_point(const BenchOptions& options,
                                                           const kv::Module& module, std::uint32_t repeat,
                                                           const Place& place);
// Deploys and preloads the store. If this is not called, finish_point() does so first.
[[nodiscard]] Result<> set_up_point(PointRun& run);
// Replaces the load of a run whose store is deployed and preloaded, or that is fit for a further load, by the
// load of other options. These have to equal the run's options in all flags that matter before the load.
[[nodiscard]] Result<> change_load(const BenchOptions& options, const kv::Module& module, const Place& place,
                                   PointRun& run);
// Runs the load, and makes the result.
[[nodiscard]] Result<RunResult> finish_point(const BenchOptions& options, const kv::Module& module,
                                             const Place& place, PointRun& run);

// Opens the fabric, deploys the store, runs the load once in this process and makes the result. The seed is
// that of the options plus `repeat`, the number of the repetition.
[[nodiscard]] Result<RunResult> run_point(const BenchOptions& options, const kv::Module& module,
                                          std::uint32_t repeat, const Place& place);

// Parses and checks the flags of `loch bench`. Its error is what `loch bench --dry-run` prints for these
// flags.
[[nodiscard]] Result<BenchOptions> judge_flags(const std::vector<std::string>& arguments,
                                               const kv::Registry& registry);
// Checks the files that the flags name, as `loch bench --dry-run` does once the flags are accepted.
[[nodiscard]] Result<> judge_files(const BenchOptions& options, const kv::Module& module);

// Runs the load of a point whose store is deployed and preloaded, and writes the result as `loch bench` does,
// unless another process does it. Returns the exit status.
[[nodiscard]] int deliver_point(const BenchOptions& options, const kv::Module& module, const Place& place,
                                PointRun& run);

// This process's place in the launch, without a control plane.
[[nodiscard]] Result<Place> place_of_this_process();

// The "config" object of a result: the flags' values, defaults included.
[[nodiscard]] nlohmann::ordered_json config_json(const BenchOptions& options, std::uint64_t seed);

}  // namespace loch::cli
