// Tests the event queue against a sorted list.
#include "common/fabric/sim/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace loch::fabric::sim {
namespace {

constexpr Nanos last_instant = std::numeric_limits<Nanos>::max();

struct Marked : Event {
  int id = 0;
};

int id_of(Event* event) { return static_cast<Marked*>(event)->id; }

TEST(EventQueue, EmptyGivesNothing) {
  EventQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.pop_until(5), nullptr);
  EXPECT_EQ(queue.now(), 5);
}

TEST(EventQueue, TimeZeroAndTheEndOfTime) {
  EventQueue queue;
  Marked first, second, third;
  queue.push(&third, last_instant);
  queue.push(&first, 0);
  queue.push(&second, last_instant - 1);
  EXPECT_EQ(queue.pop(), &first);
  EXPECT_EQ(queue.now(), 0);
  EXPECT_EQ(queue.pop(), &second);
  EXPECT_EQ(queue.now(), last_instant - 1);
  EXPECT_EQ(queue.pop(), &third);
  EXPECT_EQ(queue.now(), last_instant);
  queue.push(&first, last_instant);
  EXPECT_EQ(queue.pop(), &first);
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.popped(), 4u);
}

TEST(EventQueue, TellsWhetherNowHasFurtherEvents) {
  EventQueue queue, random;
  Marked events[4];
  for (int i = 0; i < 4; ++i) queue.push(&events[i], i < 2 ? 70'300 : 70'300 + 256 * i);
  EXPECT_EQ(queue.pop(), &events[0]);
  EXPECT_FALSE(queue.is_next_at_now());
  EXPECT_EQ(queue.pop(), &events[1]);
  EXPECT_TRUE(queue.is_next_at_now());  // no further event is pending for the present time, 70,300
  queue.push(&events[0], 70'300);
  EXPECT_FALSE(queue.is_next_at_now());
  random.randomize_ties(1);
  EXPECT_FALSE(random.is_next_at_now());
}

// After order_by_sender(), events of one instant are popped in the order of (instant of pushing, sender), in
// whichever order they came into the queue.
TEST(EventQueue, OrderBySender) {
  constexpr Nanos meeting = 70'400;
  EventQueue queue, elsewhere;
  queue.order_by_sender();
  elsewhere.order_by_sender();
  std::vector<Marked> events(6);
  for (std::size_t i = 0; i < events.size(); ++i) events[i].id = static_cast<int>(i);
  EXPECT_EQ(elsewhere.pop_until(100), nullptr);
  const std::uint64_t late_of_2 = elsewhere.order_of(2), late_of_5 = elsewhere.order_of(5);
  queue.push(&events[0], meeting);  // pushed at 0 by the node itself
  EXPECT_EQ(queue.pop_until(200), nullptr);
  queue.push(&events[3], meeting);  // pushed at 200
  queue.push_ordered(&events[2], meeting, late_of_5);
  queue.push_ordered(&events[1], meeting, late_of_2);
  queue.push(&events[4], meeting);  // pushed at 200, after the other
  queue.push_ordered(&events[5], meeting, queue.order_of(1));
  EXPECT_LE(queue.earliest(), meeting);
  for (int expected = 0; expected < 6; ++expected) {
    Event* const popped = queue.pop();
    ASSERT_NE(popped, nullptr);
    EXPECT_EQ(static_cast<Marked*>(popped)->id, expected);
  }
  EXPECT_EQ(queue.popped(), 6U);
  queue.leave_out();
  EXPECT_EQ(queue.popped(), 7U);
  EXPECT_EQ(queue.size(), 0U);
}

// Events of one instant are popped in the order of pushing, however far ahead each was pushed.
TEST(EventQueue, EqualTimesKeepTheOrderOfPushing) {
  constexpr Nanos meeting = 123'456'789;
  EventQueue queue;
  std::vector<Marked> events(40);
  Marked step;
  std::size_t pushed = 0;
  const auto add = [&] {
    events[pushed].id = static_cast<int>(pushed);
    queue.push(&events[pushed], meeting);
    ++pushed;
  };
  add();
  // Pushes events for the same instant at ever smaller distances from it, so that every level of the wheel is
  // used.
  for (Nanos left = meeting; left > 1; left /= 2) {
    queue.push(&step, meeting - left / 2);
    add();
    ASSERT_EQ(queue.pop(), &step);
    add();
    if (pushed + 2 > events.size()) break;
  }
  for (std::size_t i = 0; i < pushed; ++i) {
    Event* const event = queue.pop();
    ASSERT_NE(event, nullptr);
    ASSERT_EQ(id_of(event), static_cast<int>(i));
    ASSERT_EQ(event->at, meeting);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueueDeathTest, ThePastIsOver) {
  EventQueue queue;
  Marked event;
  queue.push(&event, 1000);
  EXPECT_EQ(queue.pop(), &event);
  EXPECT_DEATH(queue.push(&event, 999), "in the past");
  EXPECT_DEATH(queue.push(&event, -1), "in the past");
}

TEST(EventQueue, PopUntilStopsAtItsLimit) {
  EventQueue queue;
  Marked near, far;
  queue.push(&near, 70'000);
  queue.push(&far, 70'300);
  EXPECT_EQ(queue.pop_until(69'999), nullptr);
  EXPECT_EQ(queue.now(), 69'999);
  EXPECT_EQ(queue.pop_until(70'000), &near);
  EXPECT_EQ(queue.pop_until(70'299), nullptr);
  queue.push(&near, 70'299);  // allowed at 70,299, although pop_until() has opened the slot of `far`
  EXPECT_EQ(queue.pop_until(70'299), &near);
  EXPECT_EQ(queue.pop_until(last_instant), &far);
}

// A random span, from ranges that use different levels of the wheel.
Nanos random_span(Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return 0;
    case 1:
      return static_cast<Nanos>(rng.below(3));
    case 2:
      return static_cast<Nanos>(rng.below(300));
    case 3:
      return static_cast<Nanos>(rng.below(70'000));
    case 4:
      return 256 * static_cast<Nanos>(rng.below(300));
    case 5:
      return static_cast<Nanos>(rng.below(20'000'000));
    case 6:
      return static_cast<Nanos>(rng.below(std::uint64_t{1} << 40));
    default:
      return static_cast<Nanos>(rng.below(std::uint64_t{1} << rng.below(62)));
  }
}

struct Reference {
  std::set<std::pair<std::pair<Nanos, int>, Marked*>> pending;  // events by (time, order of pushing)
};

void interleave(std::uint64_t seed, bool uses_limits) {
  Rng rng(seed, "interleave");
  EventQueue queue;
  Reference reference;
  std::vector<std::unique_ptr<Marked>> store;
  std::vector<Marked*> free;
  int pushes = 0;
  for (int step = 0; step < 20'000; ++step) {
    const bool grows = rng.below(1000) < (step / 2000 % 2 == 0 ? 600u : 400u);
    if (grows && queue.now() < last_instant / 2) {
      if (free.empty()) {
        store.push_back(std::make_unique<Marked>());
        free.push_back(store.back().get());
      }
      Marked* const event = free.back();
      free.pop_back();
      event->id = pushes++;
      queue.push(event, queue.now() + random_span(rng));
      reference.pending.insert({{event->at, event->id}, event});
      continue;
    }
    Nanos limit = last_instant;
    if (uses_limits && rng.chance(0.7))
      limit = queue.now() + std::min(random_span(rng), last_instant - queue.now());
    Event* const got = limit == last_instant && rng.chance(0.5) ? queue.pop() : queue.pop_until(limit);
    const auto first = reference.pending.begin();
    if (first == reference.pending.end() || first->first.first > limit) {
      ASSERT_EQ(got, nullptr) << "step " << step;
      if (uses_limits && limit == last_instant) return;  // the largest time: no event can follow
      continue;
    }
    ASSERT_EQ(got, first->second) << "step " << step;
    ASSERT_EQ(queue.now(), got->at);
    free.push_back(first->second);
    reference.pending.erase(first);
    ASSERT_EQ(queue.size(), reference.pending.size());
  }
}

TEST(EventQueue, AgreesWithASortedReference) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) interleave(seed, false);
}

TEST(EventQueue, AgreesWithASortedReferenceWithLimits) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) interleave(seed, true);
}

std::vector<int> tied_order(std::uint64_t seed) {
  EventQueue queue;
  queue.randomize_ties(seed);
  std::vector<Marked> events(50);
  for (int i = 0; i < 50; ++i) {
    events[static_cast<std::size_t>(i)].id = i;
    queue.push(&events[static_cast<std::size_t>(i)], 1'000'000 + i / 25);
  }
  std::vector<int> order;
  while (Event* event = queue.pop()) order.push_back(id_of(event));
  return order;
}

TEST(EventQueue, TiesMayBeRandomBySeed) {
  std::set<std::vector<int>> orders;
  std::map<int, int> first_counts;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<int> order = tied_order(seed);
    EXPECT_EQ(order, tied_order(seed));
    std::vector<int> sorted = order;
    // The first 25 events popped are still those of the earlier of two instants, in any order.
    std::sort(sorted.begin(), sorted.begin() + 25);
    std::sort(sorted.begin() + 25, sorted.end());
    for (int i = 0; i < 50; ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
    orders.insert(order);
    ++first_counts[order.front()];
  }
  EXPECT_EQ(orders.size(), 200u);
  EXPECT_GT(first_counts.size(), 20u);  // each of the 25 events of the first instant may be popped first
}

}  // namespace
}  // namespace loch::fabric::sim
