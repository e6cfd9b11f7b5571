// One run of a store under load on a fabric, from registration to the gathered counts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/kv/slotted.h"
#include "common/measure/result.h"
#include "workloads/driver.h"

namespace loch::workloads {

struct RunPlan {
  const kv::Module* module = nullptr;
  kv::Options options;
  std::string mutant;  // empty: none
  kv::DeployConfig deploy;
  LoadConfig load;
  Records::Shape records;
  // Layouts that rely on in-order placement run without it too: the fuzzer shows what becomes of them.
  bool waives_order = false;
  Pinning pinning;                              // of workers to cores
  Nanos control_timeout = 120'000'000'000;      // for meeting the other processes
  LogFactory logs;                              // empty: no history
  std::function<void(const Driver&)> on_start;  // before the run; for a progress display
  std::function<void(const Driver&)> on_end;    // after it, before anything is taken apart
};

struct RunOutcome {
  fabric::RunEnd end = fabric::RunEnd::finished;
  double window_s = 0;
  bool is_joint = true;                  // false on a process of several that another reports for
  std::vector<measure::NodePart> nodes;  // by node; everyone's where is_joint
  std::map<std::string, double> protocol_counters, fabric_counters;
  std::optional<fabric::SimReport> sim;
  std::string transport;  // Store::transport()
  std::vector<std::uint32_t> lost_nodes;
  std::optional<std::map<std::string, std::uint64_t>> scrubbed;
  std::vector<std::string> notes;
  std::uint64_t outstanding = 0;     // operations that never returned
  std::vector<std::string> stuck;    // of this process's final sweep
  std::vector<std::string> unsound;  // what Store::audit found, where a final sweep has left all at rest
  std::map<std::string, std::uint64_t> repaired;  // Driver::repaired()
  std::vector<std::uint32_t> declared_lost;
  std::optional<measure::Timeline> timeline;  // where LoadConfig asks for one
};

[[nodiscard]] std::string_view name(fabric::RunEnd end);

// How a protocol is to hold these records; unsupported where it takes one size alone and they have several.
[[nodiscard]] Result<kv::SlotUse> slots_of(const kv::Module& module, const kv::Options& options,
                                           const Records::Shape& records);

// Runs it. Errors are the input's (invalid_argument, unsupported) or the system's; a run that ended
// early is an outcome. Every process of a run calls it; the outcome of the lowest rank alive is the joint
// one. Lost nodes are known to all.
[[nodiscard]] Result<RunOutcome> run_load(fabric::Fabric& fabric, const RunPlan& plan);

}  // namespace loch::workloads
