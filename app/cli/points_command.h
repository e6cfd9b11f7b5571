// `loch-bench points`: runs several points (measurements, each with its own flags) in one call, and can
// preload one cluster for those that differ only in their load.
#pragma once

#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "common/settings/command.h"

namespace loch::cli {

struct PointsFlags {
  bool is_dry = false;
  std::string share = "auto";  // when simulated points begin with copies of one cluster: auto, always, never
};

[[nodiscard]] settings::Command points_command(PointsFlags& flags);

// Exit status: 0; 1: a process could not be started; 2: bad input; 130: interrupted.
[[nodiscard]] int run_points_command(const std::vector<std::string>& arguments, const kv::Registry& registry);

// Whether two points differ only in flags that are read when the load begins (BenchFlag::is_of_load), so that
// one preloaded simulated cluster serves both.
[[nodiscard]] bool have_one_set_up(const BenchOptions& one, const BenchOptions& other);

}  // namespace loch::cli
