// Makes the maps from each process's clock to the reference clock, and the result's report on the clocks.
#include "app/cli/history_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace loch::cli {
namespace {

// Measured offsets between one process's clock and the reference clock, and the method of measurement.
struct Aligned {
  std::vector<check::ClockSample> samples;
  std::string_view method;
};

Aligned aligned(const workloads::ClockReport& compared, std::uint32_t rank) {
  if (const auto found = compared.samples.find(rank);
      found != compared.samples.end() && !found->second.empty())
    return {found->second, "fabric"};
  // Every process sends its clock measurements to the reference process as it makes them, so the last one of
  // a process that died is known.
  if (const auto told = compared.told.find(rank); told != compared.told.end())
    return {{told->second}, "fabric"};
  // Each process's error against the lowest rank counts; of two others both do.
  const Nanos error = compared.reference == 0 ? compared.control_error : 2 * compared.control_error;
  return {{{.at = 0, .offset = 0, .error = error}}, "control"};
}

// Whether all comparisons allow for the two clocks being one. Those of two time namespaces are not, although
// the kernel is.
bool may_be_one(const std::vector<check::ClockSample>& samples) {
  return std::ranges::all_of(
      samples, [](const check::ClockSample& each) { return std::abs(each.offset) <= each.error; });
}

}  // namespace

HistoryClocks history_clocks(const std::optional<workloads::ClockReport>& compared, std::uint32_t ranks,
                             const check::ClockBounds& bounds) {
  HistoryClocks out;
  if (!compared) return out;
  Nanos error = 0;
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == compared->reference) {
      out.maps.emplace_back();
      continue;
    }
    Aligned own = aligned(*compared, rank);
    // Processes on a fabric of one machine read the same clock, so their times are compared without a
    // conversion. The offsets measured over the fabric, whose errors are larger, then only serve to find a
    // clock that drifts or is another.
    const bool is_shared = compared->is_one_clock && may_be_one(own.samples);
    const check::ClockMap map(std::move(own.samples), bounds);
    out.maps.push_back(is_shared ? check::ClockMap() : map);
    const auto best = std::ranges::min_element(map.samples(), {}, &check::ClockSample::round_trip);
    const Nanos own_error = is_shared ? 0 : map.error();
    error = std::max(error, own_error);
    nodes.push_back({{"node", rank},
                     {"method", is_shared ? "kernel" : own.method},
                     {"alignments", map.samples().size()},
                     {"round_trip_ns", own.method == "fabric" ? nlohmann::ordered_json(best->round_trip)
                                                              : nlohmann::ordered_json(nullptr)},
                     {"error_ns", own_error},
                     {"drift_ppm", map.drift_ppm()},
                     {"is_trusted", !map.is_untrusted()}});
    if (!map.is_untrusted() || !out.fault.empty()) continue;
    out.fault = fmt::format(
        "the clock of node {} drifted by at least {:.0f} ppm against that of node {}, more than {:.0f} ppm: "
        "times of the history cannot be compared between processes",
        rank, map.sure_drift_ppm(), compared->reference, bounds.drift_ppm);
  }
  out.report = {
      {"reference", compared->reference},
      {"error_ns", error},
      {"drift_bound_ppm", bounds.drift_ppm},
      {"wander_bound_ppm", bounds.wander_ppm},
      {"nodes", std::move(nodes)},
      {"fault", out.fault.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(out.fault)}};
  return out;
}

std::string clock_fault(const nlohmann::ordered_json& history) {
  if (!history.is_object() || !history.contains("clocks") || !history["clocks"].is_object()) return {};
  return history["clocks"]["fault"].is_string() ? history["clocks"]["fault"].get<std::string>()
                                                : std::string();
}

}  // namespace loch::cli
