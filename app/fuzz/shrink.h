// From a finding to the smallest scenario that still shows one of its kind: delta debugging over operations,
// clients, keys, failures, weak behaviour, options, the cluster's shape and instants.
//
// A smaller scenario is accepted when its verdict is the finding's and when, without what is known to cause
// it (the known-bad variant, or with the hole fixed), the same run shows nothing. Since whatever is taken
// away shifts the draws of the rest, a scenario is tried under several seeds of the simulation's random
// numbers, more of them the smaller it is. Deterministic; the number of runs is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

struct Shrunk {
  FuzzFinding finding;                // the finding of the reduced scenario, which is in finding.ran
  std::uint64_t runs = 0;             // that it took
  std::uint64_t operations_from = 0;  // of the clients and of the sweep, in the run that was found
  bool reproduced = false;  // false: the list of its operations did not show it; nothing was changed
};

// `finding` has a scenario (ran). Its cause and fixes are taken over.
[[nodiscard]] Shrunk shrink(const FuzzFinding& finding, const FuzzOptions& options);

// Operations that are left: those listed and, where the sweep is what shows it, the sweep's.
[[nodiscard]] std::uint64_t operations_left(const FuzzScenario& scenario);

}  // namespace loch::fuzz
