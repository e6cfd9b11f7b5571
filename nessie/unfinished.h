// What an operation had to leave in the index because a CAS ended in an error and its node could not be asked
// (A3): a pending word of its own that would keep its key locked for ever. The worker that left it goes on
// with it in the background, until the node is back and the slot says what has happened. Nobody else changes
// such a word while its owner lives; what a dead client left is scrub's (H12).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct Move;

// Counted, and the caller's to complete and to queue (WorkerState::unfinished): `own`, whose entry is
// `entry`, is in the slot or was there; `back` is what the slot held before.
[[nodiscard]] Unfinished leave(Lane& lane, Unfinished::Step step, const cuckoo::Place& place, Word own,
                               Word back, const EntryId& entry);
// Queues a MIGRATE, unless the rules say that nothing is settled later.
void leave_move(Lane& lane, const Move& move, Unfinished::Step step);

// One try of each whose time has come; those that are still unknown wait twice as long for the next.
[[nodiscard]] coro::Task<void> settle_unfinished(Lane* lane);

}  // namespace loch::nessie
