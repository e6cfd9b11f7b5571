// One event of the simulation: an intrusive node, so that nothing is allocated to schedule it. It
// lives in a request's, a worker's or an awaiter's own storage and is in the queue at most once.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::sim {

struct Event {
  Nanos at = 0;             // virtual time, set by the queue
  std::uint64_t order = 0;  // among events of one instant: lowest first; set by the queue
  Event* next = nullptr;    // the queue's own
  void (*fire)(Event* self) = nullptr;
  // Addresses that the handler will read, or null: prefetched when the event is near.
  const void* needs[2] = {};
};

}  // namespace loch::fabric::sim
