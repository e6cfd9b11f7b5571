// The checker for histories in which a value is put more than once, so that the value which a GET returns
// does not identify the PUT that wrote it. Deciding linearizability is then NP-complete (Gibbons and
// Korach 1997, theorem 2.1). The algorithm tracks the set of all possible (value, open operations that
// have taken effect) over time, after Wing and Gong (1993) and Lowe (2017). Its cost is exponential in
// the number of open operations in the worst case. With more than 64 operations open at once (one with an
// unknown outcome stays open for ever) or more than search_limit configurations the verdict is
// "undecided".
#pragma once

#include <span>

#include "common/check/key_history.h"

namespace loch::check {

[[nodiscard]] Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
