// Neighbours of a known scenario: other random numbers, a changed option, another time of a failure, one
// failure more or less.
#pragma once

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Makes one to three changes drawn from `rng`. They stay within what the protocol claims to bear: options on
// which its correctness depends (expiry, margins, the table's size) do not change, and requests do not begin
// to fail in a scenario without failing requests.
[[nodiscard]] FuzzScenario neighbour_of(FuzzScenario scenario, Rng& rng);

}  // namespace loch::fuzz
