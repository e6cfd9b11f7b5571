// Finds the shortest sequence of moves that shows a violation.
#pragma once

#include "app/explore/explorer.h"

namespace loch::explore {

// Searches breadth first for a violation with fewer moves than out.violation, and replaces it by the first
// found. Gives up at limits.states, or after limits.time (by default a minute): then is_shortest stays false.
void shorten(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, bool (*stop)(),
             Exploration& out);

}  // namespace loch::explore
