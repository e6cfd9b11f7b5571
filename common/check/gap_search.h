// Orders what the zones leave open: points of three kinds in the gaps between forward zones.
//
// Seen from a gap, the key is only "present" or "absent". A put point makes it present from either
// state; a remove point makes it absent (and needs it present, if a DELETE's ok promises that it
// removed something); an absent point needs it absent; the next forward zone makes it present for
// nothing. Every mandatory point must be used within its window.
//
// The search sweeps over time with the set of reachable configurations (state, points still
// pending). Three exchange arguments keep the set small without losing a solution:
//   lazy    Nothing moves until a deadline is due: a move made earlier can be put off until then,
//           except a DELETE just before a forward zone, which makes the key present again for nothing.
//   soonest Of pending points of one kind the one with the earliest deadline goes first: swapping
//           it with a later one leaves both within their windows.
//   eager   Absent points are used as soon as the key is absent: they change nothing.
// A loss is a removal that may be left out and that has a deadline all the same, so that none of the three
// holds for it: whenever one of them could matter (an absent point or a put is due, or the loss itself ends)
// both ways are tried. There are few.
// What is left to choose is how many pending puts to use up before a DELETE (those kept make the key present
// again later). Of two configurations the one that can do all that the other can is kept: while the key is
// present, one more pending put never hurts (it can be used up at once) and a later deadline is better than a
// sooner one. What remains is about one configuration for each number of puts kept while the key is absent,
// for each set of pending DELETEs. Exact; with more configurations than KeyRules::search_limit at once it
// gives up (undecided).
#pragma once

#include "common/check/zones.h"

namespace loch::check {

// `zones` has decided nothing yet. The judgement names the point that could not be placed.
[[nodiscard]] Judgement search_gaps(const Zones& zones, const KeyRules& rules);

}  // namespace loch::check
