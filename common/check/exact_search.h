// The checker for histories in which a value is put more than once, so that a GET does not say whose
// PUT it read. Deciding that is NP-complete (Gibbons and Korach 1997, theorem 2.1); this carries the
// set of all possible (value, open operations that have taken effect) through time, after Wing and
// Gong (1993) and Lowe (2017). Exponential in the number of open operations in the worst case: more
// than 64 open at once (an unknown outcome stays open) or search_limit configurations: undecided.
#pragma once

#include <span>

#include "common/check/key_history.h"

namespace loch::check {

[[nodiscard]] Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
