// The counters that a fabric reports after a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/units.h"

namespace loch::fabric {

struct NodeReport {
  std::uint64_t tx_wire_bytes = 0, rx_wire_bytes = 0;     // since the last reset_counters
  double cpu_busy = 0, client_busy = 0, server_busy = 0;  // fractions of the node's (role's) cores
  double power_w = 0;                                     // mean; 0 where nobody measures
  bool is_lost = false;                                   // crashed or killed during the run
  std::map<std::string, double> counters;                 // the fabric's own, by name
};

struct SimReport {
  std::uint64_t events = 0;
  double virtual_s = 0, wall_s = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t request_allocations = 0;  // heap allocations made for requests after warm-up
};

struct FabricReport {
  std::vector<NodeReport> nodes;  // by NodeId; remote nodes' entries are empty until gathered
  std::optional<SimReport> sim;
  std::map<std::string, double> counters;
};

// Why a run ended.
enum class RunEnd : std::uint8_t { finished, deadlock, deadline, interrupted };

}  // namespace loch::fabric
