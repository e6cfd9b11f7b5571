// Judges the history of one key: in near-linear time by zones.h and gap_search.h; by exact search if a value
// was put twice, or if the key had INSERTs and gap_search.h found no order.
#include "common/check/key_history.h"

#include <algorithm>

#include "common/check/exact_search.h"
#include "common/check/gap_search.h"
#include "common/check/zones.h"

namespace loch::check {

Judgement judge_key(std::span<const KeyOp> operations, const KeyRules& rules) {
  if (rules.model == Model::none) return {};
  const Zones zones = find_zones(operations, rules);
  if (zones.judgement.verdict != Verdict::holds) return zones.judgement;
  const auto is_insert = [](const KeyOp& op) { return op.kind == OpKind::insert_if_absent; };
  if (zones.repeated_values) return search_exactly(operations, rules);
  if (std::ranges::any_of(operations, is_insert)) {
    // If search_gaps() finds an order, the history is linearizable. If it finds none, there may be one all
    // the same, and the exact search decides.
    const Judgement judgement = search_gaps(zones, rules);
    return judgement.verdict == Verdict::holds ? judgement : search_exactly(operations, rules);
  }
  // In a lossy cache a GET may miss at any time, so no order of misses and writes has to be found:
  // find_zones() has found every contradiction already.
  if (rules.model == Model::lossy_cache) return {};
  for (const Point& point : zones.points) {
    if (point.kind != PointKind::put && !point.optional) return search_gaps(zones, rules);
  }
  return {};
}

}  // namespace loch::check
