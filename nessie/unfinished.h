// Unfinished work: a CAS of an operation ended in an error and its node could not be asked for the outcome
// (the node was out of reach, A3 in docs/protocols/nessie.md), so that a pending word of the operation may be
// in the index and would keep its key locked for ever. The operation's worker tries to complete or undo it in
// the background until the node is back and the slot's word tells the outcome. No other client changes such a
// word while its owner lives; a separate repair, scrub, treats what dead clients left (H12 in
// docs/protocols/nessie.md).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct Move;

// Counts a piece of unfinished work and returns its description; the caller fills in the other fields and
// appends it to WorkerState::unfinished. `own`, the word that names `entry`, is or was in the slot; `back` is
// the word that the slot held before.
[[nodiscard]] Unfinished leave(Lane& lane, Unfinished::Step step, const cuckoo::Place& place, Word own,
                               Word back, const EntryId& entry);
// Queues an unfinished MIGRATE (move of a key) for the background to complete or roll back. Does nothing if
// the rules never resolve unknown outcomes, or if the source slot's word cannot show which operation emptied
// the slot.
void leave_move(Lane& lane, const Move& move, Unfinished::Step step);

// Tries once to complete or undo each piece of unfinished work whose time has come; after a failed try the
// pause is doubled.
[[nodiscard]] coro::Task<void> settle_unfinished(Lane* lane);

}  // namespace loch::nessie
