// The result of one point: JSON, schema 1 (docs/formats.md; README of the commands). Every key is
// always present; what nobody measured is null or empty, never left out.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/measure/tally.h"
#include "common/measure/timeline.h"

namespace loch::measure {

constexpr int schema_version = 1;

// One node's share, as its process saw it.
struct NodePart {
  std::uint32_t node = 0;
  Tally tally;
  fabric::NodeReport report;
};

struct PointResult {
  std::string protocol, fabric, hardware;
  std::uint64_t seed = 0;
  std::uint32_t repeat = 0;
  nlohmann::ordered_json config;  // everything, defaults included
  fabric::Capabilities capabilities;
  std::string transport;  // the transport of the protocol's requests; empty: the fabric's verbs
  double duration_s = 0;  // of the measurement window
  std::optional<std::int64_t> window_began_unix_ns;  // real time only
  std::uint32_t value_size = 0;                      // bytes: goodput is operations times this
  std::vector<NodePart> nodes;                       // by node; a lost node has what it told before
  std::optional<fabric::SimReport> sim;
  std::map<std::string, double> protocol_counters, fabric_counters;
  std::string run_end = "finished";  // finished, deadlock, deadline or interrupted
  std::vector<std::uint32_t> lost_nodes;
  std::vector<std::uint32_t> planned_losses;  // nodes whose processes a faults file kills
  std::vector<std::uint32_t> declared_lost;   // nodes declared lost: keys that they stored may be absent
  std::optional<Timeline> timeline;           // if requested
  std::uint32_t probed_keys = 0;  // the prober's sample, of which the timeline counts unwritable ones
  nlohmann::ordered_json sizes = nullptr;         // where sizes differ: how much of the largest records take
  std::uint32_t multi_get = 1;                    // keys that one GET operation asks for
  nlohmann::ordered_json trace_replay = nullptr;  // of a trace that was replayed: docs/formats.md
  nlohmann::ordered_json scrub = nullptr;         // what the dead had held, when asked for
  nlohmann::ordered_json check = nullptr;         // a verdict on the history, when one was taken in memory
  nlohmann::ordered_json background_workers = nullptr;  // background CPU load alongside the run
  nlohmann::ordered_json search = nullptr;  // of --search: the goal, whether it was met, what was tried
  // Why the rates are not the design's own in a steady state: it waited for room, or was not steady.
  std::vector<std::string> caveats;
  std::vector<std::string> notes;  // remarks for the user (ignored workload keys, …)
  std::vector<std::string> argv;
};

[[nodiscard]] nlohmann::ordered_json to_json(const PointResult& point);
[[nodiscard]] nlohmann::ordered_json to_json(const fabric::Capabilities& capabilities);
[[nodiscard]] nlohmann::json to_json(const NodePart& part);
[[nodiscard]] Result<NodePart> node_part_from_json(const nlohmann::json& json);

// A few lines for a person: throughput, latencies, work requests.
[[nodiscard]] std::string summary(const nlohmann::ordered_json& result);

}  // namespace loch::measure
