// Looks for the shortest sequence of moves that shows a violation.
#pragma once

#include "app/explore/explorer.h"

namespace loch::explore {

// Breadth first from the start, to one move less than out.violation has: the first violation met replaces
// it. It gives up (is_shortest stays false) at limits.states, or after a minute or limits.time.
void shorten(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, bool (*stop)(),
             Exploration& out);

}  // namespace loch::explore
