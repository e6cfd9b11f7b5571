// One run of a protocol under load, for its tests: on the simulator or on shared memory, with lost messages
// if asked for, and with all work requests counted.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "workloads/run.h"

namespace loch::support {

struct StoreRun {
  std::string fabric = "sim";
  std::string hardware = "connectx3-10gbe";
  std::map<std::string, std::string> options;
  std::string mutant;
  kv::DeployConfig deploy;  // fields for keys, sizes and memory have usable defaults
  double get = 0.5;         // share of GETs; the other operations are PUTs
  std::uint64_t operations = 1'000;
  double loss = 0;     // share of lost UC and UD messages
  double reorder = 0;  // only on the simulator: share of UD messages that are delayed by up to reorder_span
  Nanos reorder_span = 20'000;
  double rc_error = 0;  // share of failing RC requests
  // what a client does after a failed CAS (backoff); nullopt: as the protocol does by default
  std::optional<kv::ConflictConfig> conflicts;
  std::uint64_t seed = 1;
};

// Runs the protocol; aborts if the run cannot be made.
[[nodiscard]] workloads::RunOutcome run_store(const kv::Module& module, StoreRun run);
[[nodiscard]] measure::Tally total(const workloads::RunOutcome& outcome);

}  // namespace loch::support
