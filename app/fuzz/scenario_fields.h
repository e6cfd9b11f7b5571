// The fields of a scenario in a replay file.
#pragma once

#include "app/fuzz/fields.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Everything but the module, its options and the mutant. What is read is in the ranges of its fields.
void fields(FieldWriter& to, FuzzScenario& scenario);
void fields(FieldReader& from, FuzzScenario& scenario);

// That the pieces of a scenario fit together: nodes, workers and records are there, nobody dies twice, the
// keeper lives. The error begins with the key.
[[nodiscard]] Result<> check_scenario(const FuzzScenario& scenario);

}  // namespace loch::fuzz
