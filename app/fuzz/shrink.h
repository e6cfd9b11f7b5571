// Shrinks a finding to the smallest scenario that still shows it, by delta debugging over operations,
// clients, keys, failures, simulated faults, options, the cluster's size and times.
//
// A smaller scenario is accepted if it has the finding's verdict and if the same run without the known cause
// (the known-bad variant switched off, or the known fault of the design fixed) has no finding. Removing a
// part changes the random draws of the rest, so a scenario is tried with several seeds of the simulation,
// more of them the smaller it is. Deterministic; the number of runs is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

struct Shrunk {
  FuzzFinding finding;     // the finding of the reduced scenario, which is in finding.ran
  std::uint64_t runs = 0;  // number of runs that shrinking took
  // operations before shrinking, including those that check every key at the run's end
  std::uint64_t operations_from = 0;
  // whether the script of the finding's operations reproduced the finding; if not, nothing was removed
  bool reproduced = false;
};

// Shrinks a finding whose scenario (`ran`) is known. The result has the same cause and fixes as `finding`.
[[nodiscard]] Shrunk shrink(const FuzzFinding& finding, const FuzzOptions& options);

// Number of operations in the scenario's script, or of its load if it has no script.
[[nodiscard]] std::uint64_t operations_left(const FuzzScenario& scenario);

}  // namespace loch::fuzz
