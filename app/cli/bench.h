// loch bench: one point, from its flags to its result.
#pragma once

#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "app/cli/fabrics.h"
#include "common/measure/result.h"

namespace loch::cli {

// Returns the exit status: 0; 1 the run failed; 2 bad input; 130 interrupted.
[[nodiscard]] int run_bench(const std::vector<std::string>& arguments, const kv::Registry& registry);

struct RunResult {
  bool is_joint = false;  // the whole of it; on a process of several that another reports for, a part
  measure::PointResult point;
};
// One run with the given seed in this process.
[[nodiscard]] Result<RunResult> run_point(const BenchOptions& options, const kv::Module& module,
                                          std::uint32_t repeat, const Place& place);

// The flags, defaults included, as the result's "config".
[[nodiscard]] nlohmann::ordered_json config_json(const BenchOptions& options, std::uint64_t seed);

}  // namespace loch::cli
