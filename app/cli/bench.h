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
// One run of a point in this process, from its open fabric on.
struct PointRun {
  std::uint32_t repeat = 0;
  OpenFabric open;
  std::unique_ptr<check::HistoryWriter> history;  // null: none is recorded
  workloads::RunPlan plan;
  std::unique_ptr<workloads::Deployed> deployed;  // null before set_up_point()
};
[[nodiscard]] Result<std::unique_ptr<PointRun>> open_point(const BenchOptions& options,
                                                           const kv::Module& module, std::uint32_t repeat,
                                                           const Place& place);
// Deploys and preloads the store, which finish_point() does otherwise.
[[nodiscard]] Result<> set_up_point(PointRun& run);
// Gives a run that is set up the load of other options, which are equal to its own in all that the set-up
// depends on.
[[nodiscard]] Result<> change_load(const BenchOptions& options, const kv::Module& module, const Place& place,
                                   PointRun& run);
// Runs the load, and makes the result.
[[nodiscard]] Result<RunResult> finish_point(const BenchOptions& options, const kv::Module& module,
                                             const Place& place, PointRun& run);

// All of these: runs the load once in this process, with the seed of the options plus `repeat`, the number of
// the repetition.
[[nodiscard]] Result<RunResult> run_point(const BenchOptions& options, const kv::Module& module,
                                          std::uint32_t repeat, const Place& place);

// Parses and checks the flags of `loch bench`; what is wrong with them is what --dry-run says.
[[nodiscard]] Result<BenchOptions> judge_flags(const std::vector<std::string>& arguments,
                                               const kv::Registry& registry);
// Checks the files that the flags name, as --dry-run does after that.
[[nodiscard]] Result<> judge_files(const BenchOptions& options, const kv::Module& module);

// Runs the load of a point that is set up, and writes the result as `loch bench` does; its exit status.
[[nodiscard]] int deliver_point(const BenchOptions& options, const kv::Module& module, PointRun& run);

// The "config" object of a result: the flags' values, defaults included.
[[nodiscard]] nlohmann::ordered_json config_json(const BenchOptions& options, std::uint64_t seed);

}  // namespace loch::cli
