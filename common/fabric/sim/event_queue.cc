#include "common/fabric/sim/event_queue.h"

namespace loch::fabric::sim {

Nanos EventQueue::next_time() const {
  LOCH_CHECK(!empty(), "an empty queue has no next event");
  const auto level = static_cast<unsigned>(std::countr_zero(levels_in_use_));
  const Event* const tail = levels_[level].tail[first_slot(level)];
  Nanos earliest = tail->at;
  for (const Event* event = tail->next; event != tail; event = event->next) {
    if (event->at < earliest) earliest = event->at;
  }
  return earliest;
}

// A slot of level 0 holds one instant; in random mode it is kept sorted by the drawn order.
void EventQueue::insert_by_order(Event** tail, Event* event) {
  Event* before = *tail;
  if (event->order >= before->order) {
    *tail = event;
  } else {
    while (before->next->order <= event->order) before = before->next;
  }
  event->next = before->next;
  before->next = event;
}

}  // namespace loch::fabric::sim
