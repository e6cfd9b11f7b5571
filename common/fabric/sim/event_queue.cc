// Inserts events into the slots of the timing wheel, and moves the events of a slot to lower levels when it
// is due.
#include "common/fabric/sim/event_queue.h"

namespace loch::fabric::sim {

void EventQueue::refuse(Nanos at) const {
  check_failed(__FILE__, __LINE__, "at >= now()",
               fmt::format("an event at {} is pushed in the past of {}", at, now_));
}

namespace {
// Prefetches the second and third cache line of an event that is due within 256 ns of virtual time, and the
// memory that its handler will read.
void prefetch(const Event& event) {
  prefetch_line(&event, 64);
  prefetch_line(&event, 128);
  for (const void* needed : event.needs) {
    prefetch_line(needed, 0);
    prefetch_line(needed, 64);
  }
  prefetch_line(event.needs[0], 128);
}
}  // namespace

// Moves the wheel's base to the start of the first slot in use, which is at a level above 0, and files that
// slot's events in lower levels, keeping their order.
void EventQueue::open_first() {
  const unsigned slot = first_slot();
  Event* const tail = tails_[slot];
  base_ = static_cast<std::uint64_t>(start_of(slot));
  clear(slot);
  const bool is_second_level = slot < first_slots + Wheel::level_slots;
  Event* next = tail->next;
  Event* event = nullptr;
  while (event != tail) {
    event = next;
    next = event->next;
    if (!is_second_level) {
      file(event);
      continue;
    }
    prefetch(*event);
    if (is_sorted_) {
      file(event);
      continue;
    }
    const unsigned now = static_cast<unsigned>(event->at) % first_slots;
    mark(now);
    append(&tails_[now], event);
  }
}

// Inserts an event into a slot of level 0, whose events all have the same time. After randomize_ties() or
// order_by_sender() such a slot is kept sorted by the numbers `order` of its events.
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
