// --search p99:1000us: the highest open-loop rate that meets a latency goal.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/measure/result.h"

namespace loch::cli {

struct Goal {
  double percentile = 99;  // 0 … 100; -1: the mean
  Nanos limit = 0;
};
// "p99:1000us", "p99.9:5ms", "mean:20us", "max:1ms".
[[nodiscard]] Result<Goal> parse_goal(std::string_view text);

// Does the point reach the goal, and did the store keep up with the rate that was asked?
[[nodiscard]] bool meets(const measure::PointResult& point, const Goal& goal, double rate);

struct Found {
  measure::PointResult point;  // the best that met the goal, else the last one tried
  bool is_met = false;
  std::vector<std::pair<double, bool>> tried;  // rate, met
};
// `run` measures one rate; 0 is the closed loop, whose throughput bounds the search. Bisects until
// the rate is known to 2 %, twelve runs at most.
[[nodiscard]] Result<Found> search_rate(const Goal& goal,
                                        const std::function<Result<measure::PointResult>(double rate)>& run);

}  // namespace loch::cli
