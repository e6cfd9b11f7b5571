// `loch bench`: one measurement, from its flags to its result.
#pragma once

#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "app/cli/fabrics.h"
#include "common/measure/result.h"

namespace loch::cli {

// Runs `loch bench`. Exit status: 0; 1: the run failed; 2: bad input; 130: interrupted.
[[nodiscard]] int run_bench(const std::vector<std::string>& arguments, const kv::Registry& registry);

struct RunResult {
  // true: `point` has the results of all processes; false: another process reports them
  bool is_joint = false;
  measure::PointResult point;
};
// Runs the load once in this process, with the seed of the options plus `repeat`, the number of the
// repetition.
[[nodiscard]] Result<RunResult> run_point(const BenchOptions& options, const kv::Module& module,
                                          std::uint32_t repeat, const Place& place);

// The "config" object of a result: the flags' values, defaults included.
[[nodiscard]] nlohmann::ordered_json config_json(const BenchOptions& options, std::uint64_t seed);

}  // namespace loch::cli
