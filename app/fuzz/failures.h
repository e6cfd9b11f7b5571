// What fails in a fuzz run, and what is done about it.
#pragma once

#include "app/fuzz/knobs.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Of any loss: some emulations say nothing, and what is drawn for the repair of a store is not for them.
[[nodiscard]] bool promises_something(const kv::Module& module);

// Draws what fails into the scenario's schedule, or nothing. Its cluster and load are drawn already. `share`:
// of the usual chance that something does. `storms`: a stream of its own, so that it moves no other draw.
void draw_failures(Rng& rng, Rng& storms, FuzzTable table, double share, FuzzScenario& scenario);
// Draws how soon each failure of the schedule is repaired.
void draw_repairs(Rng& rng, FuzzScenario& scenario);
// Plans what is repaired when, and which keys may stay out of service: by the schedule, and by what the
// protocol promises under the scenario's options.
void plan_repairs(FuzzScenario& scenario);
// Whether the failure with this place in the schedule may be there, beside those before it: the keeper lives
// on, one node at most crashes, and nobody dies twice.
[[nodiscard]] bool can_fail(const FuzzScenario& scenario, std::size_t place);
// "crash of n2 at 1.2ms for 3ms, …"
[[nodiscard]] std::string describe_failures(const FuzzScenario& scenario);

}  // namespace loch::fuzz
