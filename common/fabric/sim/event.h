// An event of the simulation: an intrusive list node, so that scheduling it allocates nothing. It is a member
// of a request, a worker or an awaiter, and is in the event queue at most once at a time.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric::sim {

struct Event {
  Nanos at = 0;             // virtual time, set by the queue
  std::uint64_t order = 0;  // order among events of one instant, lowest first; set by the queue
  Event* next = nullptr;    // the next event in the same slot of the event queue
  void (*fire)(Event* self) = nullptr;
  // Addresses that the handler will read, or null; of the first, three cache lines are prefetched when the
  // event is due soon, of the others two.
  const void* needs[3] = {};
};

}  // namespace loch::fabric::sim
