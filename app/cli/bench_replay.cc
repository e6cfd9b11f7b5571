// Makes a load from a trace, and reports how much of the trace was replayed, and how late.
#include "app/cli/bench_replay.h"
#include "app/cli/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace loch::cli {
namespace {

using nlohmann::ordered_json;

// Flags refused with a trace: the trace determines them, or they only apply to a mix of operations.
constexpr std::array decided = {"rate",
                                "arrivals",
                                "search",
                                "think",
                                "pause",
                                "active",
                                "active-every",
                                "multi-get",
                                "duration",
                                "timeline",
                                "probe-keys",
                                "keys",
                                "get",
                                "delete",
                                "insert-if-absent",
                                "distribution",
                                "zipf-theta",
                                "zipf-items",
                                "locality",
                                "hotspot-data",
                                "hotspot-operations",
                                "workload",
                                "property-file",
                                "property",
                                "key-size-distribution",
                                "key-size-min",
                                "key-size-pareto",
                                "key-size-histogram",
                                "value-size-distribution",
                                "value-size-min",
                                "value-size-pareto",
                                "value-size-histogram"};
constexpr std::array parts = {"trace-format", "trace-speed", "trace-preload", "trace-sizes"};

template <typename T>
T choice_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<T>(std::ranges::find(names, name) - names.begin());
}

Result<> check_speed(const BenchOptions& o, const workloads::Trace& trace, double speed) {
  const double seconds = speed > 0 ? static_cast<double>(trace.span()) / 1e9 / speed : 0;
  if (o.fabric == "sim" && seconds > longest_simulated_s)
    return refuse(
        fmt::format("--trace-speed {:g}: {} would take {:.3g} simulated seconds; at most {:g}, or give "
                    "--operations",
                    speed, o.replay.file, seconds, longest_simulated_s));
  return {};
}

std::string counted(const std::map<std::string, std::uint64_t>& counts) {
  std::vector<std::string> each;
  for (const auto& [name, count] : counts) each.push_back(fmt::format("{} {}", count, name));
  return fmt::format("{}", fmt::join(each, ", "));
}

std::uint64_t sum_of(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

ordered_json lag_json(const measure::Histogram& lag) {
  const auto us = [](double ns) { return ns / 1e3; };
  const auto at = [&](double percent) { return us(static_cast<double>(lag.percentile(percent))); };
  return {{"count", lag.count()},
          {"mean", us(lag.mean())},
          {"p50", at(50)},
          {"p90", at(90)},
          {"p99", at(99)},
          {"p99_9", at(99.9)},
          {"max", us(static_cast<double>(lag.max()))}};
}

}  // namespace

Result<> apply_replay(const std::function<bool(const std::string&)>& is_given, bool has_insert_if_absent,
                      BenchOptions& o) {
  if (o.replay.file.empty()) {
    for (const char* flag : parts)
      if (is_given(flag)) return refuse(fmt::format("--{}: goes with --trace-replay", flag));
    return {};
  }
  for (const char* flag : decided) {
    if (is_given(flag)) return refuse(fmt::format("--{}: not with --trace-replay, which decides it", flag));
  }
  if (!is_given("trace-format"))
    return refuse(fmt::format("--trace-replay: goes with --trace-format {}",
                              fmt::join(workloads::trace_format_names(), "|")));
  workloads::TraceRequest request;
  request.file = o.replay.file;
  request.format = choice_of<workloads::TraceFormat>(workloads::trace_format_names(), o.replay.format);
  request.preload = choice_of<workloads::TracePreload>(workloads::trace_preload_names(), o.replay.preload);
  request.is_one_size = o.replay.sizes == "fixed";
  if (is_given("key-size") || request.is_one_size) request.key_most = o.key_size;
  if (is_given("value-size") || request.is_one_size) request.value_most = o.value_size;
  request.unknown_value = o.value_size;
  request.operations = o.load.operations;
  request.has_insert_if_absent = has_insert_if_absent;
  LOCH_ASSIGN(const std::shared_ptr<const workloads::Trace> trace, workloads::read_trace(request));
  const double speed = is_given("trace-speed") ? o.replay.speed : trace->has_times() ? 1 : 0;
  if (speed > 0 && !trace->has_times())
    return refuse(fmt::format("--trace-speed {:g}: {} has no times; expected 0", speed, o.replay.file));
  LOCH_TRY(check_speed(o, *trace, speed));
  if (is_given("max-keys") && o.max_keys < trace->keys())
    return refuse(fmt::format("--max-keys {}: {} has {} keys", o.max_keys, o.replay.file, trace->keys()));
  if (!is_given("max-keys")) o.max_keys = trace->keys();
  o.keys = trace->preloaded();
  o.key_size = trace->key_most();
  o.value_size = trace->value_most();
  o.load.operations = trace->events().size();
  o.load.duration = 0;
  if (!is_given("warmup")) o.load.warmup = 0;
  o.load.replay = {.trace = trace, .speed = speed};
  return {};
}

void say_replay(const BenchOptions& o, measure::PointResult& point) {
  const workloads::Replay& replay = *o.load.replay;
  const workloads::Trace& trace = *replay.trace;
  const workloads::TraceCounts& counts = trace.counts();
  measure::Tally all;
  for (const measure::NodePart& node : point.nodes) all.merge(node.tally);
  const std::uint64_t operations = trace.events().size(), ended = all.total() + all.unmeasured;
  point.trace_replay = {{"file", o.replay.file},
                        {"format", o.replay.format},
                        {"speed", replay.speed},
                        {"preload", o.replay.preload},
                        {"sizes", o.replay.sizes},
                        {"lines", counts.lines},
                        {"is_cut", counts.is_cut},
                        {"operations", operations},
                        {"ended", ended},
                        {"keys", trace.keys()},
                        {"preloaded_keys", trace.preloaded()},
                        {"span_s", static_cast<double>(trace.span()) / 1e9},
                        {"skipped", counts.skipped},
                        {"simplified", counts.simplified},
                        {"short_keys", counts.short_keys},
                        {"empty_values", counts.empty_values},
                        {"unknown_values", counts.unknown_values},
                        {"lag_us", replay.speed > 0 ? lag_json(all.lag_ns) : ordered_json(nullptr)}};
  const auto caveat = [&](std::string text) { point.caveats.push_back(std::move(text)); };
  if (ended < operations)
    caveat(fmt::format("{} of the trace's {} operations were not replayed: their clients ended before",
                       operations - ended, operations));
  if (const std::uint64_t skipped = sum_of(counts.skipped); skipped > 0)
    caveat(fmt::format(
        "{} operations of the trace were skipped, for which there is no GET, PUT, DELETE or INSERT: {}",
        skipped, counted(counts.skipped)));
  if (!counts.simplified.empty())
    caveat(fmt::format("operations of the trace were replayed without their condition or lease: {}",
                       counted(counts.simplified)));
  double latency_sum = 0;
  for (const measure::KindTally& kind : all.kinds) latency_sum += kind.latency_ns.sum();
  // Reports lateness only if it makes up more than a tenth of all latencies, which count from the operations'
  // arrival times.
  if (all.lag_ns.sum() * 10 <= latency_sum || all.lag_ns.sum() == 0) return;
  point.caveats.insert(
      point.caveats.begin(),
      fmt::format(
          "late: operations began {:.3g} us after their arrival times in the mean (p99 {:.3g} us, at most "
          "{:.3g} us), {:.0f} % of the latency: their clients were busy with earlier ones, or woke late",
          all.lag_ns.mean() / 1e3, static_cast<double>(all.lag_ns.percentile(99)) / 1e3,
          static_cast<double>(all.lag_ns.max()) / 1e3,
          latency_sum > 0 ? std::min(100.0, 100 * all.lag_ns.sum() / latency_sum) : 100.0));
}

}  // namespace loch::cli
