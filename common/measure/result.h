// The result of one measured run: JSON, schema 1 (docs/formats.md). Every key is always present; a value that
// was not measured is null or empty.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/health.h"
#include "common/measure/tally.h"
#include "common/measure/timeline.h"

namespace loch::measure {

constexpr int schema_version = 1;

// The counts of one node, as reported by the process that runs it.
struct NodePart {
  std::uint32_t node = 0;
  Tally tally;
  fabric::NodeReport report;
};

struct PointResult {
  std::string protocol, fabric, hardware;
  std::uint64_t seed = 0;
  std::uint32_t repeat = 0;
  nlohmann::ordered_json config;            // every flag and option, defaults included
  std::vector<fabric::NodeDevice> devices;  // devices of all processes, by rank; empty without RDMA devices
  // faults and congestion that the devices' counters show; none without RDMA devices
  std::optional<fabric::NetworkState> network;
  fabric::Capabilities capabilities;
  std::string transport;  // the transport of the protocol's requests; empty: the fabric's verbs
  double duration_s = 0;  // length of the measurement window
  // Start of the measurement window, for runs in real time.
  std::optional<std::int64_t> window_began_unix_ns;
  std::uint32_t value_size = 0;  // bytes; goodput is the number of operations that move a value, times this
  std::vector<NodePart> nodes;  // by node number; a lost node has the counts that it reported before its loss
  std::optional<fabric::SimReport> sim;
  std::map<std::string, double> protocol_counters, fabric_counters;
  std::string run_end = "finished";  // finished, deadlock, deadline or interrupted
  std::vector<std::uint32_t> lost_nodes;
  std::vector<std::uint32_t> planned_losses;  // nodes whose processes a faults file kills
  std::vector<std::uint32_t> declared_lost;   // nodes declared lost: keys that they stored may be absent
  std::optional<Timeline> timeline;           // present if a timeline was requested
  // number of keys that the prober (--probe-keys) PUTs in every bin of the timeline, which has the number of
  // those that could not be written
  std::uint32_t probed_keys = 0;
  // Null if all records have one size. Else how a store holds records of different sizes, and the mean size
  // as a share of the largest.
  nlohmann::ordered_json sizes = nullptr;
  std::uint32_t multi_get = 1;  // number of keys that one multi-get asks for; 1: GETs are issued one by one
  nlohmann::ordered_json trace_replay = nullptr;  // statistics of a trace replay (docs/formats.md)
  nlohmann::ordered_json scrub = nullptr;         // numbers of repairs after dead clients, by kind
  nlohmann::ordered_json check = nullptr;    // the checker's verdict on the history, if checked in memory
  nlohmann::ordered_json history = nullptr;  // format and size of the history file (docs/formats.md)
  // for each process: CPUs of its workers and NUMA node of its memory; null in simulation
  nlohmann::ordered_json placement = nullptr;
  nlohmann::ordered_json background_workers = nullptr;  // background CPU load of the run (--hogs)
  // Result of --search: the goal, whether it was met, and the loads that were tried.
  nlohmann::ordered_json search = nullptr;
  // Sentences that say why the measured rates may differ from the design's rates in a steady state, for
  // instance because the store waited for free entries.
  std::vector<std::string> caveats;
  std::string departure;           // what differs from the publication, such as "over RC"; empty: nothing
  std::vector<std::string> notes;  // remarks for the user (ignored workload keys, …)
  std::vector<std::string> argv;
};

[[nodiscard]] nlohmann::ordered_json to_json(const PointResult& point);
[[nodiscard]] nlohmann::ordered_json to_json(const fabric::Capabilities& capabilities);
// Judges by the devices' counters whether the network had faults or congestion; none without RDMA devices.
[[nodiscard]] std::optional<fabric::NetworkState> judge_network(
    const std::vector<fabric::NodeDevice>& devices, const std::vector<NodePart>& nodes);
[[nodiscard]] nlohmann::json to_json(const NodePart& part);
[[nodiscard]] Result<NodePart> node_part_from_json(const nlohmann::json& json);

// A summary of a few lines for the terminal: throughput, latencies, work requests.
[[nodiscard]] std::string summary(const nlohmann::ordered_json& result);

}  // namespace loch::measure
