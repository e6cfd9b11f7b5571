// --search p99:1000us: finds the highest open-loop rate that meets a latency goal.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/measure/result.h"

namespace loch::cli {

struct Goal {
  double percentile = 99;  // from 0 to 100; -1: the mean
  Nanos limit = 0;
};
// Parses a latency goal such as "p99:1000us", "p99.9:5ms", "mean:20us" or "max:1ms".
[[nodiscard]] Result<Goal> parse_goal(std::string_view text);

// Whether the measured point meets the latency goal, and the store completed at least 95 % of `rate`, the
// requested operations a second.
[[nodiscard]] bool meets(const measure::PointResult& point, const Goal& goal, double rate);

struct Found {
  // The measured point with the highest rate that met the goal; if no point did, the last point that was
  // tried.
  measure::PointResult point;
  bool is_met = false;
  // Each measured rate in operations a second, and whether it met the goal.
  std::vector<std::pair<double, bool>> tried;
};
// Finds the highest rate by bisection to 2 %, with at most twelve runs after a first one. `run` measures one
// rate in operations a second. The first run has rate 0, a closed loop; 1.1 times its throughput is the
// highest rate that is tried.
[[nodiscard]] Result<Found> search_rate(const Goal& goal,
                                        const std::function<Result<measure::PointResult>(double rate)>& run);

}  // namespace loch::cli
