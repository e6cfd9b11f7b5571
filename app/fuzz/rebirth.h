// A node that dies and is back at once, while requests that were meant for its former incarnation are still
// sent again.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Of some scenarios replaces what fails, how soon it is repaired and how long the load goes on. Its cluster,
// load and faults are drawn already, its protocol options are not. True where it did: then `repair_after` is
// drawn, too.
[[nodiscard]] bool draw_rebirth(Rng& rng, FuzzScenario& scenario);

}  // namespace loch::fuzz
