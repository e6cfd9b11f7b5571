// Draws the failures of a fuzz run and their repairs.
#pragma once

#include "app/fuzz/knobs.h"
#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Whether the module promises service after at least one kind of loss. Some emulations promise nothing, so
// failures and repairs are not drawn for them.
[[nodiscard]] bool promises_something(const kv::Module& module);

// Draws the failures of a scenario whose cluster and load are already drawn. `share` scales the probability
// of failures. `storms` is a separate random stream, so that its draws do not change those from `rng`.
void draw_failures(Rng& rng, Rng& storms, FuzzTable table, double share, FuzzScenario& scenario);
// Draws the delay of the repair for each failure of the schedule.
void draw_repairs(Rng& rng, FuzzScenario& scenario);
// Plans the repairs and the keys that may stay out of service, from the schedule and from what the protocol
// promises under the scenario's options.
void plan_repairs(FuzzScenario& scenario);
// Whether the failure at index `place` of the schedule is possible after the failures before it: the client
// that makes the repairs must survive, at most one node may crash, and no worker may be killed twice.
[[nodiscard]] bool can_fail(const FuzzScenario& scenario, std::size_t place);
// Describes the failures, such as "crash of n2 at 1.2ms for 3ms, …".
[[nodiscard]] std::string describe_failures(const FuzzScenario& scenario);

}  // namespace loch::fuzz
