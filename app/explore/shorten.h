// Finds the shortest sequence of moves that shows a violation.
#pragma once

#include "app/explore/explorer.h"

namespace loch::explore {

// Searches breadth first for a violation with fewer moves than out.violation, and replaces out.violation by
// the first one found. Gives up after limits.states states or limits.time ns (0: one minute), and then leaves
// out.violation->is_shortest false.
void shorten(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, bool (*stop)(),
             Exploration& out);

}  // namespace loch::explore
