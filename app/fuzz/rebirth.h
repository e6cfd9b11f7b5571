// Scenarios in which a node crashes and restarts at once, while requests meant for its former incarnation are
// still being sent again.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// For some scenarios, replaces their failures, the delays of repairs and the length of the load. To be called
// when cluster, load and faults are drawn and protocol options are not. Returns whether it did; then
// `repair_after` is drawn too.
[[nodiscard]] bool draw_rebirth(Rng& rng, FuzzScenario& scenario);

}  // namespace loch::fuzz
