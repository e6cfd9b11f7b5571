// Searches for an order of one key's operations. zones.h finds the forward zones, in which the key holds one
// value; the other operations are points, each of which takes effect at one instant of its window, in the
// gaps between forward zones.
//
// In a gap the key is only "present" or "absent". A put point makes the key present from either state. A
// remove point makes it absent (and requires it present, if a DELETE's ok promises that it removed
// something). An absent point requires it absent. The next forward zone makes it present without using a
// put point. Every mandatory point must be placed within its window.
//
// The search sweeps over time with the set of reachable configurations (key's state, points still
// pending). Three exchange arguments keep that set small without losing a solution:
//   lazy    No point is used before a deadline is due, because a point used earlier can be put off until
//           then. The exception is a DELETE just before a forward zone, which makes the key present again.
//   soonest Of pending points of one kind the one with the earliest deadline is used first: swapping it
//           with a later one leaves both within their windows.
//   eager   Absent points are used as soon as the key is absent, because they change no state.
// A loss is a removal that is optional and has a deadline all the same, so that none of the three
// arguments applies to it. Whenever a loss could matter (an absent point or a put is due, or the loss
// itself ends) the search tries both: with and without its removal. Losses are few. What remains to be
// chosen is how many pending puts to use before a DELETE (puts not used yet can make the key present
// again later). Of two configurations the search discards the one whose possible continuations the other
// has too: while the key is present, one more pending put never hurts (it can be used at once) and a
// later deadline is better than a sooner one. About one configuration remains for each number of pending
// puts while the key is absent, for each set of pending DELETEs. Without INSERTs the search is exact.
//
// An insert point makes the key present too, but requires it absent; an exists point requires it present and,
// like an absent point, is used as soon as it is. If the key is absent when an exists point is due, the point
// stays owed: the write that makes the key present next must have been invoked by then, and no point in
// between may need the key absent. With INSERTs an order that the search finds is valid, but it may miss
// orders, since the three arguments do not hold for insert points: "violated" then only says that none was
// found.
//
// With more than KeyRules::search_limit configurations at once, or more than 64 node losses, the search gives
// up (undecided).
#pragma once

#include "common/check/zones.h"

namespace loch::check {

// Searches for an order of the operations of `zones`, in which find_zones() found no violation. If there is
// none, the judgement names the operation whose deadline passed.
[[nodiscard]] Judgement search_gaps(const Zones& zones, const KeyRules& rules);

}  // namespace loch::check
