// Scenarios beside one that is known: the same but for other random numbers, an option, an instant, a
// failure.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// One to three changes, drawn from `rng`. What the protocol says it bears stays within that: options that its
// correctness rests on (expiry, margins, the table's size) are left alone, and requests do not begin to fail
// where they could not.
[[nodiscard]] FuzzScenario neighbour_of(FuzzScenario scenario, Rng& rng);

}  // namespace loch::fuzz
