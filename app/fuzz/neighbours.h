// Neighbours of a known scenario, which differ from it by little: other random numbers, a changed option,
// another time of a failure, or one failure more or less.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Makes one to three changes drawn from `rng`, under which the protocol still claims to be correct: options
// on which its correctness depends (expiry, margins, the table's size) do not change, and a scenario in which
// no request can fail gets no failing requests.
[[nodiscard]] FuzzScenario neighbour_of(FuzzScenario scenario, Rng& rng);

}  // namespace loch::fuzz
