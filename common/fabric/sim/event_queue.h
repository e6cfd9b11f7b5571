// EventQueue: the pending events of a simulation. They are popped in the order of (time, order of pushing),
// if no other rule for events of one time is chosen (randomize_ties, order_by_sender).
//
// A hierarchical timing wheel over intrusive events. An event is filed under the highest digit in which
// its time differs from the wheel's base (the time of the last event popped): level 0 holds the current
// 256 ns one slot a nanosecond, level 1 the current 65.5 us in slots of 256 ns, and so on up to level 7,
// so every INT64 time has a place and nothing needs tuning. The slots of all levels are numbered
// consecutively, from level 0 on: the first slot in use holds the earliest events. When the base moves
// into a slot of a higher level, that slot's events are filed anew, in their order, before anything else
// can be pushed there: hence events of one instant come out in the order in which they were pushed, and
// a push or pop costs a few instructions whatever the number pending.
//
// event_queue_bench, 1,000 pending, one core, million events a second: this wheel 68, a 4-ary heap 17,
// std::priority_queue 16; resuming a coroutine by each event 46, through a nested Task as well 27.
//
// One thread only. The queue owns no event: whoever pushed it keeps it alive, and leaves it alone,
// until it is popped (there is no removal: an event that is no longer wanted is ignored when it
// fires).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/fabric/sim/event.h"

namespace loch::fabric::sim {

// Prefetches the cache line at `bytes` behind `from`; no effect if `from` is null.
inline void prefetch_line(const void* from, std::size_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes));
}

// The slots of the timing wheel: level 0 has 2^first_bits, each of the others 2^level_bits; a slot of a level
// is as wide as the whole level below it.
struct Wheel {
  static constexpr unsigned first_bits = 8, level_bits = 8, levels = 8;
  static constexpr unsigned first_slots = 1U << first_bits, level_slots = 1U << level_bits;
  static constexpr unsigned slots = first_slots + (levels - 1) * level_slots, words = slots / 64;
  static_assert(first_bits + (levels - 1) * level_bits >= 63 && words <= 64);
  // the bits of words_in_use_ (a bitmap of the words in `occupied_` that are not 0) that stand for level 0
  static constexpr std::uint64_t first_words = (std::uint64_t{1} << first_slots / 64) - 1;

  // How the slot for a time is computed at one level: `first` + (time >> shift) % (mask + 1).
  struct Level {
    unsigned shift = 0, mask = first_slots - 1, first = 0;
  };
  static constexpr auto make_levels() {
    std::array<Level, levels> made{};
    for (unsigned i = 1; i < levels; ++i) {
      const unsigned below = (i - 1) * level_bits;
      made[i] = {first_bits + below, level_slots - 1, first_slots + (i - 1) * level_slots};
    }
    return made;
  }
};
inline constexpr auto wheel_levels = Wheel::make_levels();

class EventQueue {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // From now on simultaneous events are popped in random order, for tests of code that must not depend on the
  // order of pushing. To be called while the queue is empty.
  void randomize_ties(std::uint64_t seed) {
    LOCH_CHECK(empty(), "the tie rule is chosen before the first push");
    ties_ = Rng(seed, "ties");
    is_sorted_ = true;
  }

  // From now on simultaneous events are popped in the order of (instant of pushing, sender), which each node
  // of a simulation can compute by itself; events with the same instant of pushing and sender are popped in
  // the order in which they were pushed. To be called while the queue is empty.
  void order_by_sender() {
    LOCH_CHECK(empty(), "the tie rule is chosen before the first push");
    is_sorted_ = is_by_sender_ = true;
  }
  // The `order` of an event that is pushed at now(). `sender`: 0 for an event that a node pushes for itself,
  // or else 1 + the number of the node that pushes it for another one.
  [[nodiscard]] std::uint64_t order_of(std::uint32_t sender) const {
    return static_cast<std::uint64_t>(now_) << sender_bits | sender;
  }
  static constexpr unsigned sender_bits = 13;  // leaves 51 bits for the time: 26 days

  // Schedules the event for `at` (>= now()), and sets its `at` and `order`. The event must not be in a queue.
  void push(Event* event, Nanos at) {
    push_ordered(event, at, !is_sorted_ ? pushed_ : is_by_sender_ ? order_of(0) : ties_());
  }
  // As push(), with an `order` that order_of() has returned, maybe of another queue. After order_by_sender().
  void push_ordered(Event* event, Nanos at, std::uint64_t order) {
    if (at < now_) [[unlikely]]
      refuse(at);
    event->at = at;
    event->order = order;
    ++pushed_;
    file(event);
  }

  // Removes and returns the earliest event, and moves now() to its time; null if the queue is empty.
  [[nodiscard]] Event* pop() {
    while ((words_in_use_ & Wheel::first_words) == 0) {
      if (words_in_use_ == 0) return nullptr;
      open_first();
    }
    return take();
  }

  // As pop(), if the earliest event is not later than `limit`; otherwise returns null, and now() becomes
  // `limit` (>= now()).
  [[nodiscard]] Event* pop_until(Nanos limit) {
    while (words_in_use_ != 0) {
      const unsigned first = first_slot();
      if (start_of(first) > limit) break;
      if (first < first_slots) return take();
      open_first();
    }
    if (limit > now_) now_ = limit;
    return nullptr;
  }

  [[nodiscard]] bool empty() const { return words_in_use_ == 0; }
  [[nodiscard]] std::size_t size() const { return pushed_ - popped_; }
  // Time of the last event that was popped, or a later limit at which pop_until() found no event.
  [[nodiscard]] Nanos now() const { return now_; }
  // Whether an event that is pushed for the time now() would be popped next. Always false after
  // randomize_ties(), so that callers push the event: each push draws a random number, and to leave one out
  // would change the order of later events.
  [[nodiscard]] bool is_next_at_now() const {
    const bool is_random = is_sorted_ && !is_by_sender_;
    return !is_random && tails_[static_cast<std::uint64_t>(now_) % first_slots] == nullptr;
  }
  // To be called instead of pushing such an event, if its work is done at once. After order_by_sender() the
  // event counts as popped: whether is_next_at_now() depends on the events of other nodes in this queue.
  void leave_out() {
    if (!is_by_sender_) return;
    ++pushed_;
    ++popped_;
  }
  // A lower bound of the time of the earliest event; the largest Nanos if the queue is empty.
  [[nodiscard]] Nanos earliest() const {
    return empty() ? std::numeric_limits<Nanos>::max() : start_of(first_slot());
  }
  // Events popped so far.
  [[nodiscard]] std::uint64_t popped() const { return popped_; }

 private:
  static constexpr unsigned first_slots = Wheel::first_slots, slots = Wheel::slots;

  // Files an event in the timing wheel without a conditional branch on its level or slot, which the processor
  // could not predict.
  void file(Event* event) {
    const auto at = static_cast<std::uint64_t>(event->at);
    const auto digit =
        static_cast<unsigned>(63 - std::countl_zero((at ^ base_) | 1U << (Wheel::first_bits - 1)));
    const Wheel::Level& level =
        wheel_levels[(digit + Wheel::level_bits - Wheel::first_bits) / Wheel::level_bits];
    const unsigned slot = level.first + (static_cast<unsigned>(at >> level.shift) & level.mask);
    mark(slot);
    Event*& tail = tails_[slot];
    if (is_sorted_ && slot < first_slots && tail != nullptr) [[unlikely]]
      return insert_by_order(&tail, event);
    append(&tail, event);
  }

  void mark(unsigned slot) {
    occupied_[slot / 64] |= std::uint64_t{1} << slot % 64;
    words_in_use_ |= std::uint64_t{1} << slot / 64;
  }
  void clear(unsigned slot) {
    tails_[slot] = nullptr;
    std::uint64_t& word = occupied_[slot / 64];
    word &= ~(std::uint64_t{1} << slot % 64);
    words_in_use_ &= ~(static_cast<std::uint64_t>(word == 0) << slot / 64);
  }

  // Appends an event to a slot: a circular list known by its tail, so that the head is tail->next and a
  // single event is its own predecessor.
  static void append(Event** tail, Event* event) {
    event->next = event;
    Event* const before = *tail != nullptr ? *tail : event;
    event->next = before->next;
    before->next = event;
    *tail = event;
  }

  // Removes and returns the earliest event; level 0 of the timing wheel must not be empty.
  [[nodiscard]] Event* take() {
    const unsigned slot = first_slot();
    Event* const tail = tails_[slot];
    Event* const event = tail->next;
    if (event == tail)
      clear(slot);
    else
      tail->next = event->next;
    now_ = event->at;
    base_ = static_cast<std::uint64_t>(event->at);
    ++popped_;
    return event;
  }

  // The index of the first slot that holds events.
  [[nodiscard]] unsigned first_slot() const {
    const auto word = static_cast<unsigned>(std::countr_zero(words_in_use_));
    return word * 64 + static_cast<unsigned>(std::countr_zero(occupied_[word]));
  }
  // The earliest time of an event in a slot.
  [[nodiscard]] Nanos start_of(unsigned slot) const {
    const unsigned number = slot < first_slots ? 0 : 1 + (slot - first_slots) / Wheel::level_slots;
    const Wheel::Level& level = wheel_levels[number];
    const unsigned above = number == 0 ? Wheel::first_bits : level.shift + Wheel::level_bits;
    const std::uint64_t base = number == Wheel::levels - 1 ? 0 : base_ >> above << above;
    return static_cast<Nanos>(base | std::uint64_t{slot - level.first} << level.shift);
  }

  [[noreturn]] void refuse(Nanos at) const;
  void open_first();
  static void insert_by_order(Event** tail, Event* event);

  // time from which an event's level and slot in the wheel are computed; at most now_
  std::uint64_t base_ = 0;
  Nanos now_ = 0;
  std::uint64_t pushed_ = 0, popped_ = 0;
  std::uint64_t words_in_use_ = 0;  // bit i is set if word i of `occupied_` is not 0
  // whether events of one time are popped in the order of their member `order`, and whether that order is
  // (instant of pushing, sender)
  bool is_sorted_ = false, is_by_sender_ = false;
  std::uint64_t occupied_[Wheel::words] = {};
  Event* tails_[slots] = {};
  Rng ties_;
};

}  // namespace loch::fabric::sim
