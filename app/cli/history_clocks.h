// The clocks of the processes that recorded a history: how the times of each are translated when the history
// is joined, and what the result says about them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/check/clock_map.h"
#include "workloads/run.h"

namespace loch::cli {

struct HistoryClocks {
  std::vector<check::ClockMap> maps;  // by rank; empty if only one process has clients
  nlohmann::ordered_json report;      // the result's history.clocks; null if there are no maps
  // Why times of several processes cannot be compared: a clock that drifts beyond the bound; else empty.
  std::string fault;
};

[[nodiscard]] HistoryClocks history_clocks(const std::optional<workloads::ClockReport>& compared,
                                           std::uint32_t ranks, const check::ClockBounds& bounds = {});

// The fault that the result's `history` names, or an empty text.
[[nodiscard]] std::string clock_fault(const nlohmann::ordered_json& history);

}  // namespace loch::cli
