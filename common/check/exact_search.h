// The checker for histories that zones do not decide: those in which a value is put more than once, so that a
// GET does not say whose PUT it read (deciding that is NP-complete: Gibbons and Korach 1997, theorem 2.1),
// and those with INSERTs, which take effect or not by whether the key is there, whatever its value.
//
// Carries the set of all possible (value, open operations that have taken effect) through time, after Wing
// and Gong (1993) and Lowe (2017). What keeps it small, without losing an order that explains the history:
//   lazy     Nothing changes the key until an operation returns that has not taken effect, and then just what
//            leads to it: what came behind it can wait.
//   eager    What only looks takes effect as soon as the key is as it says.
//   alike    Values that nobody reads are one; of operations that do the same the one that returns first goes
//            first.
//   read up  A value that is put once is not replaced before all have read it.
// Exponential in the number of overlapping operations in the worst case: more than 256 open at once (an
// unknown outcome stays open) or KeyRules::search_limit configurations: undecided.
#pragma once

#include <span>

#include "common/check/key_history.h"

namespace loch::check {

[[nodiscard]] Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
