// Reduces a key's violating history to the few operations that contradict each other.
//
// Every step only weakens the history, so that the remaining operations contradict each other whatever the
// others did. First the history is cut at the earliest end, and then at the latest beginning, with which it
// still violates. Bisection finds both, because a history that extends a violating one violates too. Then, in
// ever smaller groups, GETs are removed, and the outcome of PUTs and DELETEs is made unknown. Number of
// checks: O(log n) on the whole history, then O(m log m) to O(m^2) on the m operations that the cuts leave.
#pragma once

#include <span>
#include <vector>

#include "common/check/key_history.h"

namespace loch::check {

struct Minimal {
  std::vector<KeyOp> operations;  // the operations that contradict each other, ordered by invocation
  // the operations that contradict each other, as the checker judged them: some with their outcome made
  // unknown; `judgement` has indices into this vector
  std::vector<KeyOp> judged;
  Judgement judgement;       // the checker's verdict on the kept operations
  Start start = Start::any;  // the key's state at the start, as assumed for that verdict
};

// Reduces `operations`, which must violate linearizability under `rules`, to a smallest sub-history.
[[nodiscard]] Minimal minimise(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
