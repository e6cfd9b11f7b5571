// Parses a latency goal and searches by bisection for the highest rate that meets it.
#include "app/cli/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace loch::cli {
namespace {

measure::Histogram latencies(const measure::PointResult& point) {
  measure::Histogram all;
  for (const measure::NodePart& node : point.nodes) {
    for (const measure::KindTally& kind : node.tally.kinds) all.merge(kind.latency_ns);
  }
  return all;
}

double throughput(const measure::PointResult& point) {
  std::uint64_t completed = 0;
  for (const measure::NodePart& node : point.nodes) completed += node.tally.completed();
  return point.duration_s > 0 ? static_cast<double>(completed) / point.duration_s : 0;
}

}  // namespace

Result<Goal> parse_goal(std::string_view text) {
  const auto bad = [&] {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--search: \"{}\" is not a goal such as p99:1000us, p99.9:5ms, mean:20us or max:1ms",
                    text));
  };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return bad();
  const std::string_view what = text.substr(0, colon);
  Goal goal;
  if (what == "mean") {
    goal.percentile = -1;
  } else if (what == "max") {
    goal.percentile = 100;
  } else {
    if (!what.starts_with('p')) return bad();
    const auto [end, error] = std::from_chars(what.data() + 1, what.data() + what.size(), goal.percentile);
    if (error != std::errc{} || end != what.data() + what.size()) return bad();
    if (!(goal.percentile > 0 && goal.percentile <= 100)) return bad();
  }
  const auto limit = parse_duration(text.substr(colon + 1), "--search");
  if (!limit || *limit <= 0) return bad();
  goal.limit = *limit;
  return goal;
}

bool meets(const measure::PointResult& point, const Goal& goal, double rate) {
  const measure::Histogram all = latencies(point);
  if (all.count() == 0) return false;
  const double reached =
      goal.percentile < 0 ? all.mean() : static_cast<double>(all.percentile(goal.percentile));
  // With random arrivals, a store that keeps up may complete slightly fewer operations than requested in a
  // short window: this share of the requested rate suffices.
  constexpr double kept_up = 0.95;
  return reached <= static_cast<double>(goal.limit) && throughput(point) >= kept_up * rate;
}

Result<Found> search_rate(const Goal& goal,
                          const std::function<Result<measure::PointResult>(double rate)>& run) {
  constexpr int runs = 12;
  constexpr double precision = 0.02;
  LOCH_ASSIGN(measure::PointResult closed, run(0));
  Found found;
  double least = 0, most = throughput(closed) * 1.1;
  if (most <= 0) return fail(ErrorCode::internal, "--search: the closed loop completed nothing");
  for (int i = 0; i < runs && most - least > precision * most; ++i) {
    const double rate = (least + most) / 2;
    LOCH_ASSIGN(measure::PointResult point, run(rate));
    if (point.run_end != "finished") {
      found.point = std::move(point);
      return found;
    }
    const bool is_met = meets(point, goal, rate);
    found.tried.emplace_back(rate, is_met);
    (is_met ? least : most) = rate;
    if (is_met || !found.is_met) found.point = std::move(point);
    found.is_met = found.is_met || is_met;
  }
  return found;
}

}  // namespace loch::cli
