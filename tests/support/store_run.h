// One run of a protocol under load, for its tests: over the simulator or this machine's memory, with
// messages lost on the way where asked for, and every work request counted.
#pragma once

#include <map>
#include <string>

#include "workloads/run.h"

namespace loch::support {

struct StoreRun {
  std::string fabric = "sim";
  std::string hardware = "connectx3-10gbe";
  std::map<std::string, std::string> options;
  std::string mutant;
  kv::DeployConfig deploy;  // keys, sizes and memory have usable defaults
  double get = 0.5;         // the rest are PUTs
  std::uint64_t operations = 1'000;
  double loss = 0;     // share of UC and UD messages that are lost
  double reorder = 0;  // sim: share of UD messages that are late, by up to reorder_span
  Nanos reorder_span = 20'000;
  double rc_error = 0;  // share of RC requests that fail
  std::uint64_t seed = 1;
};

// Aborts if the run cannot be made.
[[nodiscard]] workloads::RunOutcome run_store(const kv::Module& module, StoreRun run);
[[nodiscard]] measure::Tally total(const workloads::RunOutcome& outcome);

}  // namespace loch::support
