// EventQueue: the simulation's future, in exact (time, order of pushing) order.
//
// A hierarchical radix-256 timing wheel over intrusive events. An event is filed under the highest
// byte in which its time differs from the wheel's base (the time of the last event popped): level 0
// holds the current 256 ns one slot a nanosecond, level 1 the current 65.5 us in slots of 256 ns,
// and so on up to level 7, so every INT64 time has a place and nothing needs tuning. When the base
// moves into a slot of a higher level, that slot's events are filed anew, in their order, before
// anything else can be pushed there: hence events of one instant come out in the order in which
// they were pushed, and a push or pop costs a few instructions whatever the number pending.
//
// event_queue_bench, 1,000 pending, one core, million events a second: this wheel 68, a 4-ary heap 17,
// std::priority_queue 16; resuming a coroutine by each event 46, through a nested Task as well 27.
//
// One thread only. The queue owns no event: whoever pushed it keeps it alive, and leaves it alone,
// until it is popped (there is no removal: an event that is no longer wanted is ignored when it
// fires).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/fabric/sim/event.h"

namespace loch::fabric::sim {

// Brings the line at `bytes` behind `from` into the cache; nothing where there is nothing.
inline void prefetch_line(const void* from, std::size_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes));
}

class EventQueue {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // From now on simultaneous events are popped in random order: for tests, which must not depend on
  // the order of pushing. Only while the queue is empty.
  void randomize_ties(std::uint64_t seed) {
    LOCH_CHECK(empty(), "the tie rule is chosen before the first push");
    ties_ = Rng(seed, "ties");
    is_random_ = true;
  }

  // Files the event for `at` (>= now()); sets its `at` and `order`. It must not be in a queue.
  void push(Event* event, Nanos at) {
    LOCH_CHECK(at >= now_, "an event at {} is pushed in the past of {}", at, now_);
    event->at = at;
    event->order = is_random_ ? ties_() : next_order_++;
    ++size_;
    file(event);
  }

  // Takes the earliest event and moves now() to its time; null when there is none.
  [[nodiscard]] Event* pop() {
    while (levels_in_use_ != 0) {
      const auto level = static_cast<unsigned>(std::countr_zero(levels_in_use_));
      const unsigned slot = first_slot(level);
      if (Event* event = level == 0 ? pop_front(slot) : open(level, slot); event != nullptr) {
        return take(event);
      }
    }
    return nullptr;
  }

  // The same, if the earliest event is not later than `limit`; else null, and now() is `limit`
  // (>= now()).
  [[nodiscard]] Event* pop_until(Nanos limit) {
    while (levels_in_use_ != 0) {
      const auto level = static_cast<unsigned>(std::countr_zero(levels_in_use_));
      const unsigned slot = first_slot(level);
      if (slot_start(level, slot) > limit) break;
      if (level == 0) return take(pop_front(slot));
      refile(level, slot);
    }
    if (limit > now_) now_ = limit;
    return nullptr;
  }

  // The earliest event's time; the queue must not be empty. Looks at the events of one slot, so it
  // is meant for reports and not for the main loop (pop_until is).
  [[nodiscard]] Nanos next_time() const;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Time of the last event popped, or the last limit reached.
  [[nodiscard]] Nanos now() const { return now_; }
  // Events popped so far.
  [[nodiscard]] std::uint64_t popped() const { return popped_; }

 private:
  static constexpr unsigned slots = 256;
  static constexpr unsigned levels = 8;

  // A slot is a circular list, known by its tail: the head is tail->next.
  struct Level {
    std::uint64_t occupied[slots / 64] = {};
    std::uint32_t words = 0;  // which words of `occupied` are not 0
    Event* tail[slots] = {};
  };

  void file(Event* event) {
    const std::uint64_t at = static_cast<std::uint64_t>(event->at);
    const unsigned level = static_cast<unsigned>(63 - std::countl_zero((at ^ base_) | 1)) >> 3;
    const auto slot = static_cast<unsigned>(at >> (8 * level)) & (slots - 1);
    Level& wheel = levels_[level];
    std::uint64_t& word = wheel.occupied[slot >> 6];
    const std::uint64_t bit = std::uint64_t{1} << (slot & 63);
    if ((word & bit) == 0) {
      word |= bit;
      wheel.words |= 1u << (slot >> 6);
      levels_in_use_ |= 1u << level;
      event->next = event;
      wheel.tail[slot] = event;
      return;
    }
    if (is_random_ && level == 0) {
      insert_by_order(&wheel.tail[slot], event);
      return;
    }
    Event* const tail = wheel.tail[slot];
    event->next = tail->next;
    tail->next = event;
    wheel.tail[slot] = event;
  }

  [[nodiscard]] unsigned first_slot(unsigned level) const {
    const Level& wheel = levels_[level];
    const auto word = static_cast<unsigned>(std::countr_zero(wheel.words));
    return word * 64 + static_cast<unsigned>(std::countr_zero(wheel.occupied[word]));
  }

  void clear(unsigned level, unsigned slot) {
    Level& wheel = levels_[level];
    const unsigned word = slot >> 6;
    wheel.occupied[word] &= ~(std::uint64_t{1} << (slot & 63));
    // Without a branch: nobody could foretell it.
    wheel.words &= ~(static_cast<std::uint32_t>(wheel.occupied[word] == 0) << word);
    levels_in_use_ &= ~(static_cast<std::uint32_t>(wheel.words == 0) << level);
  }

  [[nodiscard]] Event* pop_front(unsigned slot) {
    Event* const tail = levels_[0].tail[slot];
    Event* const head = tail->next;
    if (head == tail) {
      clear(0, slot);
    } else {
      tail->next = head->next;
    }
    return head;
  }

  // The first slot of the lowest level in use: an event that is alone in it is the earliest of all.
  [[nodiscard]] Event* open(unsigned level, unsigned slot) {
    Event* const tail = levels_[level].tail[slot];
    if (tail->next == tail) {
      clear(level, slot);
      return tail;
    }
    refile(level, slot);
    return nullptr;
  }

  [[nodiscard]] Event* take(Event* event) {
    now_ = event->at;
    base_ = static_cast<std::uint64_t>(event->at);
    --size_;
    ++popped_;
    return event;
  }

  [[nodiscard]] Nanos slot_start(unsigned level, unsigned slot) const {
    const unsigned shift = 8 * level;
    const std::uint64_t above = level == levels - 1 ? 0 : base_ >> (shift + 8) << (shift + 8);
    return static_cast<Nanos>(above | (std::uint64_t{slot} << shift));
  }

  // Moves the base to the slot's start and files its events in lower levels, in their order.
  void refile(unsigned level, unsigned slot) {
    Event* const tail = levels_[level].tail[slot];
    base_ = static_cast<std::uint64_t>(slot_start(level, slot));
    clear(level, slot);
    Event* event = tail->next;
    while (true) {
      Event* const next = event->next;
      const bool is_last = event == tail;
      if (level == 1) prefetch(*event);
      file(event);
      if (is_last) return;
      event = next;
    }
  }

  // The event comes within the next 256 ns of virtual time: its own next lines, and what it needs.
  static void prefetch(const Event& event) {
    const auto* self = reinterpret_cast<const char*>(&event);
    __builtin_prefetch(self + 64);
    __builtin_prefetch(self + 128);
    for (const void* needed : event.needs) {
      prefetch_line(needed, 0);
      prefetch_line(needed, 64);
    }
  }

  static void insert_by_order(Event** tail, Event* event);

  std::uint64_t base_ = 0;  // events are filed by how they differ from this; never after now_
  Nanos now_ = 0;
  std::uint32_t levels_in_use_ = 0;
  bool is_random_ = false;
  std::size_t size_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t popped_ = 0;
  Rng ties_;
  Level levels_[levels];
};

}  // namespace loch::fabric::sim
