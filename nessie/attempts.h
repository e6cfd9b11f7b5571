// What the operations of a client have in common: how an attempt begins, and what follows its end.
#pragma once

#include "nessie/lane.h"
#include "nessie/reach.h"

namespace loch::nessie {

// Whether another attempt of the operation may end differently.
[[nodiscard]] inline bool is_worth_retrying(Attempt attempt) {
  return attempt == Attempt::conflict || attempt == Attempt::again || attempt == Attempt::no_entry;
}

// The result of an operation whose last attempt ended so, after `retries` other attempts.
[[nodiscard]] kv::OpResult result_of(Attempt attempt, std::uint32_t retries);

// Backs off for a random time (full jitter), because two writers that back off equally would conflict again
// (known fault H13 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<void> back_off(Lane* lane, std::uint32_t attempt);

// Begins an attempt of an operation: notes the time, and reads this node's copy of the member table (nodes'
// incarnations) again if it changed.
[[nodiscard]] inline Access begin_attempt(Lane& lane, fabric::OpStats* stats) {
  const Access access{.lane = lane, .stats = stats, .started = lane.worker.now()};
  look_at_members(lane);
  return access;
}

}  // namespace loch::nessie
