// What one fuzz seed runs: a small cluster, a few keys in a table so small that they collide, a
// mixture of operations, protocol knobs, faults and failures. Drawn from the seed alone; a plain value, from
// which with its seeds everything that happens follows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/kv/protocol.h"
#include "workloads/run.h"

namespace loch::fuzz {

// How soon the NIC gives up, instead of the profile's time: so short that requests fail.
struct FuzzRetries {
  Nanos timeout = 0;
  std::uint32_t count = 0;
  Nanos rnr_timer = 0;
  std::uint32_t rnr_count = 0;
  // The longest time until a request has failed.
  [[nodiscard]] Nanos longest() const { return timeout * (count + 1) + rnr_timer * (rnr_count + 1); }
};

// What fails, beside what SimFaults' schedule lists.
struct FuzzFailures {
  std::optional<FuzzRetries> retries;
  bool has_schedule = false;
  kv::ClientId keeper;  // of a run with a schedule: who repairs, and never fails
  std::vector<Nanos>
      repair_after;  // for each failure of the schedule: how long until it is repaired, if it must be
  [[nodiscard]] bool is_calm() const { return !retries && !has_schedule; }
};

// Upper bound of the memory of one node in a fuzz run.
constexpr std::uint64_t fuzz_memory_bytes = std::uint64_t{1} << 26;

struct FuzzScenario {
  std::string profile;                       // "calm", "collide", …: fuzz_scenario.cc says what each is for
  workloads::RunPlan plan;                   // logs are the runner's to set
  fabric::sim::SimConfig sim;                // without hardware
  std::map<std::string, std::string> knobs;  // the protocol options that were drawn
  bool keeps_memory_in_order = true;         // false: DMA writes may become visible out of address order
  FuzzFailures failures;
  [[nodiscard]] std::string describe() const;  // one line
};

[[nodiscard]] std::uint64_t operations_in(const workloads::Script& script);

// Cases that no protocol claims to bear, drawn on request only.
enum class Unfair : std::uint8_t {
  none,
  clock,  // clocks differ by more than the margin that the protocol was told
};

// How much larger the table, or how modest the values, must be in the next draw.
struct FuzzRoom {
  std::uint32_t slack = 0;         // slots added to a table that was too small for its keys
  bool has_modest_values = false;  // values were larger than the protocol carries
};

// `settings` are options that the caller fixed: they are not drawn.
[[nodiscard]] Result<FuzzScenario> draw_scenario(
    std::uint64_t seed, const kv::Module& module, const std::string& mutant,
    const std::vector<std::pair<std::string, std::string>>& settings, FuzzRoom room = {},
    Unfair unfair = Unfair::none);

}  // namespace loch::fuzz
