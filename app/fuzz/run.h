// Runs a scenario and judges its result.
#pragma once

#include <string>

#include "app/fuzz/fuzz.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Runs the scenario, deterministically, and fills in all fields of `finding` except seed, scenario and the
// counts of probes (marks of rare branches). Fails if the run cannot be made: the protocol refuses the
// options, or its table is too small.
[[nodiscard]] Result<> run_scenario(FuzzScenario& scenario, const std::string& hardware,
                                    FuzzFinding& finding);

// Deploys and preloads the scenario's store without running anything. Fails where run_scenario() would.
[[nodiscard]] Result<> try_scenario(FuzzScenario& scenario, const std::string& hardware);

}  // namespace loch::fuzz
