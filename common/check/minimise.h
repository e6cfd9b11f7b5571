// From a key's violating history to the few operations that contradict each other.
//
// Only weakenings are made, so that what is left contradicts itself whatever the operations left out
// did: the history is cut at the earliest end and the latest beginning that still violate (both are
// monotone, found by bisection); then, in ever smaller groups, GETs are removed, and PUTs and DELETEs
// are turned into ones that may or may not have taken effect. Checks: O(log n) on the whole, then
// O(m log m) to O(m^2) on the m operations of the window.
#pragma once

#include <span>
#include <vector>

#include "common/check/key_history.h"

namespace loch::check {

struct Minimal {
  std::vector<KeyOp> operations;  // the operations that contradict each other, by invocation
  std::vector<KeyOp> judged;      // kept and weakened operations, in the order that `judgement` indexes
  Judgement judgement;            // of `judged`
  Start start = Start::any;       // that it was judged with
};

// `operations` violate under `rules`.
[[nodiscard]] Minimal minimise(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
