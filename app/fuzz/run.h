// Runs a scenario and judges it.
#pragma once

#include <string>

#include "app/fuzz/fuzz.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Deterministic. Fills in everything of `finding` but seed, scenario and probes. Fails where the run cannot
// be made: the protocol refuses the options, or its table has no room.
[[nodiscard]] Result<> run_scenario(FuzzScenario& scenario, const std::string& hardware,
                                    FuzzFinding& finding);

}  // namespace loch::fuzz
