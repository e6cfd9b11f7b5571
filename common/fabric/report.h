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
  std::uint64_t tx_wire_bytes = 0, rx_wire_bytes = 0;  // bytes on the wire since the last reset_counters()
  // fractions of time, 0 to 1, for which the node's cores (in real time: all its workers), its client workers
  // and its server workers were busy
  double cpu_busy = 0, client_busy = 0, server_busy = 0;
  double power_w = 0;    // the node's mean power draw in watts; 0 where the fabric does not report power
  bool is_lost = false;  // true: the node crashed or was killed during the run
  std::map<std::string, double> counters;  // counters that only this kind of fabric has, by name
};

struct SimReport {
  std::uint64_t events = 0;
  double virtual_s = 0, wall_s = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t request_allocations = 0;  // heap allocations made for requests after warm-up
};

struct FabricReport {
  // indexed by NodeId; the entries of other processes' nodes are complete after the reports have been merged
  std::vector<NodeReport> nodes;
  std::optional<SimReport> sim;
  std::map<std::string, double> counters;
};

// Why a run ended.
enum class RunEnd : std::uint8_t { finished, deadlock, deadline, interrupted };

}  // namespace loch::fabric
