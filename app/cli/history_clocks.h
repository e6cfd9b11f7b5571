// The clocks of the processes that recorded a history: how each process's times are converted when the
// histories are joined, and the result's report on the clocks.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/check/clock_map.h"
#include "workloads/run.h"

namespace loch::cli {

struct HistoryClocks {
  std::vector<check::ClockMap> maps;  // indexed by rank; empty if only one process has clients
  nlohmann::ordered_json report;      // the result's history.clocks; null if there are no maps
  // Why the times of several processes cannot be compared: names the clock that drifts by more than
  // ClockBounds::drift_ppm. Empty: they can.
  std::string fault;
};

[[nodiscard]] HistoryClocks history_clocks(const std::optional<workloads::ClockReport>& compared,
                                           std::uint32_t ranks, const check::ClockBounds& bounds = {});

// The fault of the clocks that the result's `history` object reports, or an empty text.
[[nodiscard]] std::string clock_fault(const nlohmann::ordered_json& history);

}  // namespace loch::cli
