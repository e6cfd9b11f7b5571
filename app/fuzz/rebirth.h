// Draws scenarios in which a node crashes and restarts at once, while clients still repeat requests that were
// meant for the node before its crash.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// In some scenarios, replaces the failures, the delays of repairs and the length of the load by those of a
// node that crashes and soon restarts, and returns true; otherwise returns false. To be called when cluster,
// load and faults are drawn and protocol options are not.
[[nodiscard]] bool draw_rebirth(Rng& rng, FuzzScenario& scenario);

}  // namespace loch::fuzz
