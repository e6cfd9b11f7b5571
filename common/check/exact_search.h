// The checker for histories that zones.h does not decide: those in which a value is put more than once, so
// that the value which a GET returns does not identify its PUT (deciding such histories is NP-complete:
// Gibbons and Korach 1997, theorem 2.1), and those with INSERTs for which gap_search.h finds no order. The
// effect of an INSERT depends on whether the key is present.
//
// The algorithm tracks the set of all possible (value, open operations that have taken effect) over time,
// after Wing and Gong (1993) and Lowe (2017). Four arguments keep the set small without losing an order
// that explains the history:
//   lazy     Nothing changes the key until an operation returns that has not taken effect, and then only
//            operations take effect that are needed for it; operations after it can wait.
//   eager    An operation that changes nothing takes effect as soon as the key's state fits its result.
//   alike    Values that no GET reads count as one value; of operations with the same effect the one that
//            returns first is taken first.
//   read up  A value that is put once is not replaced before all its GETs have read it.
// The cost is exponential in the number of overlapping operations in the worst case. With more than 256
// operations open at once (one with an unknown outcome stays open for ever) or more than
// KeyRules::search_limit elements of that set the verdict is "undecided".
#pragma once

#include <span>

#include "common/check/key_history.h"

namespace loch::check {

[[nodiscard]] Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
