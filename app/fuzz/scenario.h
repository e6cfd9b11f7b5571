// The scenario of one fuzz seed: a small cluster, a few keys in a table so small that they collide, a mixture
// of operations, protocol options, faults and failures. Drawn from the seed alone; a plain value that, with
// its seeds, determines every event of the run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/kv/protocol.h"
#include "workloads/run.h"

namespace loch::fuzz {

// Retry settings of the NIC that replace those of the hardware profile, so short that requests fail.
struct FuzzRetries {
  Nanos timeout = 0;
  std::uint32_t count = 0;
  Nanos rnr_timer = 0;
  std::uint32_t rnr_count = 0;
  // Longest time in ns until a failing request ends.
  [[nodiscard]] Nanos longest() const { return timeout * (count + 1) + rnr_timer * (rnr_count + 1); }
};

// Failures of a scenario, in addition to those in SimFaults' schedule.
struct FuzzFailures {
  std::optional<FuzzRetries> retries;
  bool has_schedule = false;
  kv::ClientId keeper;              // if has_schedule: the client that makes the repairs and never fails
  std::vector<Nanos> repair_after;  // for each failure of the schedule: ns until its repair, if it needs one
  [[nodiscard]] bool is_calm() const { return !retries && !has_schedule; }
};

// Upper bound of the memory of one node in a fuzz run.
constexpr std::uint64_t fuzz_memory_bytes = std::uint64_t{1} << 26;

struct FuzzScenario {
  std::string profile;      // the kind of scenario: "calm", "collide", …
  workloads::RunPlan plan;  // what to run; run_scenario() sets its operation logs
  // the simulated cluster without its hardware profile, which run_scenario() sets
  fabric::sim::SimConfig sim;
  std::map<std::string, std::string> knobs;  // protocol options that were drawn
  bool keeps_memory_in_order = true;         // false: DMA writes may become visible out of address order
  FuzzFailures failures;
  [[nodiscard]] std::string describe() const;  // one line for reports
};

[[nodiscard]] std::uint64_t operations_in(const workloads::Script& script);

// Situations in which no protocol claims to be correct, drawn only on request.
enum class Unfair : std::uint8_t {
  none,
  clock,  // clocks differ by more than the clock-margin option
};

// How to change a scenario that is drawn again because its table was too small or its values were too large.
struct FuzzRoom {
  std::uint32_t slack = 0;         // slots to add to the table
  bool has_modest_values = false;  // whether to draw only values that are small enough for every protocol
};

// Draws a scenario. `settings` are options that the caller fixed, which are not drawn.
[[nodiscard]] Result<FuzzScenario> draw_scenario(
    std::uint64_t seed, const kv::Module& module, const std::string& mutant,
    const std::vector<std::pair<std::string, std::string>>& settings, FuzzRoom room = {},
    Unfair unfair = Unfair::none);

}  // namespace loch::fuzz
