// What one fuzz seed runs: a small cluster, a few keys in a table so small that they collide, a
// mixture of operations, protocol knobs and faults. Drawn from the seed alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/kv/protocol.h"
#include "workloads/run.h"

namespace loch::cli {

struct FuzzScenario {
  std::string profile;                         // "calm", "collide", …: fuzz_scenario.cc says what each is for
  workloads::RunPlan plan;                     // logs are the runner's to set
  fabric::sim::SimConfig sim;                  // without hardware
  std::map<std::string, std::string> knobs;    // the protocol options that were drawn
  bool keeps_memory_in_order = true;           // else: the profile's in-order placement is off
  [[nodiscard]] std::string describe() const;  // one line
};

// `settings` are options that the caller fixed: they are not drawn. `slack`: slots added to a table
// that turned out to be too small for its keys.
[[nodiscard]] Result<FuzzScenario> draw_scenario(
    std::uint64_t seed, const kv::Module& module, const std::string& mutant,
    const std::vector<std::pair<std::string, std::string>>& settings, std::uint32_t slack = 0);

}  // namespace loch::cli
