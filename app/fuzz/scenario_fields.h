// The fields of a scenario in a replay file.
#pragma once

#include "app/fuzz/fields.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Writes or reads all fields of a scenario except the module, its options and the mutant. Reading checks each
// field's range.
void fields(FieldWriter& to, FuzzScenario& scenario);
void fields(FieldReader& from, FuzzScenario& scenario);

// Checks that the parts of a scenario are consistent: all nodes, workers and records that it names exist, no
// worker is killed twice, and the client that makes the repairs survives. An error begins with the key of the
// faulty field, such as "load.script.clients".
[[nodiscard]] Result<> check_scenario(const FuzzScenario& scenario);

}  // namespace loch::fuzz
