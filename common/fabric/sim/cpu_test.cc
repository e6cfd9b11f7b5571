// Tests the simulated cores: scheduling by the rules of Linux 3.13, callbacks, accounting.
#include "common/fabric/sim/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/sim/event_queue.h"

namespace loch::fabric::sim {
namespace {

constexpr Nanos us = 1'000, ms = 1'000'000, s = 1'000'000'000;

CpuProfile twelve_cores() {
  CpuProfile cpu;
  cpu.cores = 12;
  cpu.sockets = 2;
  return cpu;
}
CpuProfile one_core_only() {
  CpuProfile cpu;
  cpu.cores = 1;
  cpu.sockets = 1;
  return cpu;
}

// A thread that records when it was on which core.
struct Diary {
  struct Stay {
    Nanos from = 0, to = -1;
    std::uint32_t core = 0;
  };
  std::vector<Stay> stays;
  EventQueue* queue = nullptr;
  SimThread* thread = nullptr;
  static void on(SimThread* thread) {
    auto* self = static_cast<Diary*>(thread->owner());
    self->stays.push_back({self->queue->now(), -1, thread->core()});
  }
  static void off(SimThread* thread) {
    auto* self = static_cast<Diary*>(thread->owner());
    self->stays.back().to = self->queue->now();
  }
};

class Node {
 public:
  explicit Node(const CpuProfile& profile, const SchedulerProfile& scheduler = SchedulerProfile{})
      : cpu(queue, profile, scheduler, PowerProfile{}, 1) {}
  Diary& add(const std::string& name, CoreSet allowed, ThreadRole role = ThreadRole::client,
             bool is_background = false) {
    diaries_.push_back(std::make_unique<Diary>());
    Diary& diary = *diaries_.back();
    diary.queue = &queue;
    diary.thread =
        cpu.add_thread({.name = name, .allowed = allowed, .role = role, .is_background = is_background},
                       {Diary::on, Diary::off, &diary});
    return diary;
  }
  // Adds a thread that polls all the time.
  Diary& poller(CoreSet allowed, ThreadRole role = ThreadRole::client) {
    Diary& diary = add("poller " + std::to_string(diaries_.size()), allowed, role);
    cpu.wake(diary.thread);
    return diary;
  }
  void run_to(Nanos until) {
    while (Event* event = queue.pop_until(until)) event->fire(event);
  }
  Nanos time(const Diary& diary) const { return cpu.cpu_time(diary.thread); }

  EventQueue queue;
  NodeCpu cpu;

 private:
  std::vector<std::unique_ptr<Diary>> diaries_;
};

TEST(NodeCpu, PinnedThreadsOnCoresOfTheirOwnCostNoEvents) {
  Node node(twelve_cores());
  std::vector<Diary*> pollers;
  for (std::uint32_t i = 0; i < 12; ++i) pollers.push_back(&node.poller(one_core(i)));
  node.run_to(1 * ms);
  EXPECT_EQ(node.cpu.scheduling_events(), 12u);  // each thread was scheduled on its core once
  EXPECT_TRUE(node.queue.empty());
  node.run_to(10 * s);
  EXPECT_EQ(node.cpu.scheduling_events(), 12u);
  for (const Diary* poller : pollers) {
    ASSERT_EQ(poller->stays.size(), 1u);
    EXPECT_NEAR(static_cast<double>(node.time(*poller)), 10.0 * s, 10.0 * us);
  }
  EXPECT_NEAR(node.cpu.usage().busy_fraction(), 1.0, 1e-6);
}

TEST(NodeCpu, TwoPollersOnACoreTakeTurnsOf12To16Ms) {
  Node node(one_core_only());
  Diary& a = node.poller(one_core(0));
  Diary& b = node.poller(one_core(0));
  node.run_to(10 * s);
  EXPECT_GT(a.stays.size(), 250u);
  Nanos shortest = s, longest = 0;
  for (const Diary* diary : {&a, &b}) {
    for (std::size_t i = 2; i + 1 < diary->stays.size(); ++i) {
      const Nanos stay = diary->stays[i].to - diary->stays[i].from;
      shortest = std::min(shortest, stay);
      longest = std::max(longest, stay);
    }
  }
  EXPECT_GE(shortest, 11 * ms);
  EXPECT_LE(longest, 16 * ms + 10 * us);
  EXPECT_NEAR(static_cast<double>(node.time(a)), 5.0 * s, 0.05 * s);
}

TEST(NodeCpu, ModernSlicesAreShorter) {
  SchedulerProfile modern;  // settings that approximate the scheduler of Linux 6.6 (cpu_profile.h)
  modern.latency_ms = 3;
  modern.wakeup_granularity_ms = 3;
  modern.sleeper_credit_ms = 0;
  Node node(one_core_only(), modern);
  Diary& a = node.poller(one_core(0));
  node.poller(one_core(0));
  node.run_to(10 * s);
  EXPECT_GT(a.stays.size(), 1000u);
  EXPECT_NEAR(static_cast<double>(node.time(a)), 5.0 * s, 0.05 * s);
}

TEST(NodeCpu, MoreThreadsThanThePeriodHoldsGetTheLeastSliceEach) {
  Node node(one_core_only());
  std::vector<Diary*> pollers;
  for (int i = 0; i < 12; ++i) pollers.push_back(&node.poller(one_core(0)));
  node.run_to(20 * s);
  for (const Diary* poller : pollers) {
    EXPECT_NEAR(static_cast<double>(node.time(*poller)), 20.0 * s / 12, 0.1 * s);
    // A slice of 3 ms ends at the next tick, which is after 4 ms.
    EXPECT_NEAR(static_cast<double>(poller->stays.size()), 20.0 * s / 12 / (4 * ms), 60);
  }
}

TEST(NodeCpu, WeightsShareTheCore) {
  Node node(one_core_only());
  SimThread* const heavy = node.cpu.add_thread({.name = "heavy", .is_background = true, .weight = 3072});
  SimThread* const light = node.cpu.add_thread({.name = "light", .is_background = true, .weight = 1024});
  node.run_to(20 * s);
  EXPECT_NEAR(static_cast<double>(node.cpu.cpu_time(heavy)) / static_cast<double>(node.cpu.cpu_time(light)),
              3, 0.2);
}

// 13 equal pollers on 12 cores: at every moment two of them share a core, and the pair seldom changes.
TEST(NodeCpu, ThirteenPollersLeaveOnePairSharing) {
  Node node(twelve_cores());
  std::vector<Diary*> pollers;
  for (int i = 0; i < 13; ++i) pollers.push_back(&node.poller(all_cores));
  node.run_to(10 * s);
  EXPECT_GT(node.cpu.usage().busy_fraction(), 0.999);
  // fewer than one migration per 60 ms of the 10,000 ms
  EXPECT_LT(node.cpu.usage().migrations, 10'000u / 60);
  Nanos least = 10 * s, most = 0;
  for (const Diary* poller : pollers) {
    least = std::min(least, node.time(*poller));
    most = std::max(most, node.time(*poller));
  }
  // In 10 s every thread gets at least 4.5 s of core time, about half a core; the shares become equal only
  // slowly.
  EXPECT_GE(least, 45 * s / 10);
  EXPECT_LE(most, 10 * s);
  EXPECT_GT(most - least, s / 10);
}

TEST(NodeCpu, AnUnpinnedBackgroundWorkerSharesWithOnePinnedPollerAtATime) {
  Node node(twelve_cores());
  std::vector<Diary*> pollers;
  for (std::uint32_t i = 0; i < 12; ++i) pollers.push_back(&node.poller(one_core(i), ThreadRole::server));
  Diary& background = node.add("hog", all_cores, ThreadRole::background, true);
  node.run_to(10 * s);
  const CpuUsage usage = node.cpu.usage();
  EXPECT_GT(usage.busy_fraction(), 0.999);
  const double background_share = static_cast<double>(node.time(background)) / (10.0 * s);
  EXPECT_GT(background_share, 0.4);
  EXPECT_LT(background_share, 0.62);
  EXPECT_NEAR(usage.role_fraction(ThreadRole::background), background_share, 1e-9);
  EXPECT_NEAR(usage.role_fraction(ThreadRole::server), (12 - background_share) / 12, 0.01);
  EXPECT_NEAR(usage.background_hashes, static_cast<double>(node.time(background)) / 500, 2);
  // Each poller is pinned and shares its core with the background worker at most, so that it gets about half
  // of the core's 10 s or more.
  for (const Diary* poller : pollers) EXPECT_GT(node.time(*poller), 4 * s);
  for (const Diary* poller : pollers) {
    for (const auto& stay : poller->stays) ASSERT_EQ(stay.core, poller->stays.front().core);
  }
}

TEST(NodeCpu, BackgroundWorkersTakeFreeCoresFirst) {
  Node node(twelve_cores());
  std::vector<Diary*> pollers;
  for (std::uint32_t i = 0; i < 9; ++i) pollers.push_back(&node.poller(one_core(i)));
  for (int i = 0; i < 3; ++i) node.add("hog", all_cores, ThreadRole::background, true);
  node.run_to(5 * s);
  for (const Diary* poller : pollers) EXPECT_GT(node.time(*poller), 49 * s / 10);
  EXPECT_GT(node.cpu.usage().role_fraction(ThreadRole::background), 0.98);
}

// As fork does: if all cores are equally loaded, a new thread stays on its parent's core.
TEST(NodeCpu, ANewThreadStaysOnItsParentsCoreWhereAllAreAlike) {
  for (const std::uint32_t parent : {3U, 7U}) {
    Node node(twelve_cores());
    for (std::uint32_t i = 0; i < 12; ++i) node.poller(one_core(i));
    node.run_to(1 * ms);
    const SimThread* background =
        node.cpu.add_thread({.name = "hog", .is_background = true, .parent_core = parent});
    node.run_to(100 * ms);
    EXPECT_EQ(background->core(), parent);
  }
}

// Of two background workers with the same parent, the first starts on the parent's socket and the second on
// the other socket, which is less loaded by then.
TEST(NodeCpu, ANewThreadStaysOnItsParentsSocketUnlessTheOtherIsLessLoaded) {
  for (const std::uint32_t parent : {0U, 5U, 6U, 11U}) {
    Node node(twelve_cores());
    for (std::uint32_t core = 0; core < 12; ++core) node.poller(one_core(core));
    SimThread* const first =
        node.cpu.add_thread({.name = "first", .is_background = true, .parent_core = parent});
    SimThread* const second =
        node.cpu.add_thread({.name = "second", .is_background = true, .parent_core = parent});
    EXPECT_EQ(first->core() / 6, parent / 6);
    EXPECT_NE(second->core() / 6, parent / 6);
  }
}

TEST(NodeCpu, BalancingFillsIdleCoresOfBothSockets) {
  Node node(twelve_cores());
  std::vector<Diary*> parked;
  for (std::uint32_t i = 6; i < 12; ++i) parked.push_back(&node.poller(one_core(i)));
  node.run_to(1 * ms);
  for (int i = 0; i < 12; ++i) node.add("hog", all_cores, ThreadRole::background, true);
  node.run_to(100 * ms);
  for (Diary* diary : parked) node.cpu.block(diary->thread);  // leaves the cores of socket 1 idle
  node.cpu.reset_usage();
  node.run_to(2 * s);
  EXPECT_GT(node.cpu.usage().busy_fraction(), 0.99);
  EXPECT_GT(node.cpu.usage().migrations, 0u);
}

TEST(NodeCpu, AWakingSleeperPreemptsABackgroundWorker) {
  Node node(one_core_only());
  Diary& background = node.add("hog", one_core(0), ThreadRole::background, true);
  Diary& sleeper = node.add("sleeper", one_core(0));
  node.run_to(100 * ms);
  // the sleeper has never run before: as a new thread it is queued one slice behind the background worker
  node.cpu.wake(sleeper.thread);
  node.run_to(200 * ms);
  ASSERT_TRUE(sleeper.stays.size() >= 1);
  while (!sleeper.thread->is_on_core()) node.run_to(node.queue.now() + ms);
  node.cpu.block(sleeper.thread);
  node.run_to(node.queue.now() + 100 * ms);
  const std::size_t before = sleeper.stays.size();
  const Nanos woken = node.queue.now();
  // The virtual runtime of the background worker exceeds that of the sleeper by more than 4 ms, so that the
  // sleeper preempts it.
  node.cpu.wake(sleeper.thread);
  EXPECT_EQ(background.stays.back().to, woken);
  node.run_to(woken + 10 * us);
  ASSERT_EQ(sleeper.stays.size(), before + 1);
  EXPECT_EQ(sleeper.stays.back().from, woken + 1'500);  // a context switch takes 1.5 us
  // The sleeper runs for 9 ms, blocks briefly and wakes again. Its virtual runtime is now less than 4 ms
  // below that of the background worker, so that the sleeper does not preempt the background worker.
  node.run_to(woken + 9 * ms);
  node.cpu.block(sleeper.thread);
  node.run_to(node.queue.now() + 100 * us);
  node.cpu.wake(sleeper.thread);
  node.run_to(node.queue.now() + 10 * us);
  EXPECT_FALSE(sleeper.thread->is_on_core());
}

TEST(NodeCpu, AWakingThreadPrefersItsCoreThenItsSocket) {
  Node node(twelve_cores());
  Diary& walker = node.poller(all_cores);
  node.run_to(ms);
  const std::uint32_t home = walker.thread->core();
  node.cpu.block(walker.thread);
  node.run_to(2 * ms);
  node.cpu.wake(walker.thread);
  node.run_to(3 * ms);
  EXPECT_EQ(walker.thread->core(), home);
  node.cpu.block(walker.thread);
  node.poller(one_core(home));
  node.run_to(4 * ms);
  node.cpu.wake(walker.thread);
  node.run_to(5 * ms);
  EXPECT_NE(walker.thread->core(), home);
  EXPECT_EQ(walker.thread->core() / 6, home / 6);
}

TEST(NodeCpu, PausedThreadsGetNoCoreAndLoseNothing) {
  Node node(twelve_cores());
  Diary& worker = node.poller(one_core(3));
  Diary& sleeper = node.add("sleeper", one_core(4));
  node.run_to(ms);
  node.run_to(2 * ms);
  node.cpu.pause(worker.thread);
  EXPECT_EQ(worker.stays.back().to, 2 * ms);
  node.cpu.pause(sleeper.thread);
  node.cpu.wake(sleeper.thread);
  node.run_to(10 * ms);
  EXPECT_FALSE(worker.thread->is_on_core());
  EXPECT_FALSE(sleeper.thread->is_on_core());
  node.cpu.resume(worker.thread);
  node.cpu.resume(sleeper.thread);
  node.run_to(20 * ms);
  ASSERT_EQ(worker.stays.size(), 2u);
  EXPECT_GE(worker.stays.back().from, 10 * ms);
  EXPECT_TRUE(worker.thread->is_on_core());
  EXPECT_TRUE(sleeper.thread->is_on_core());
}

TEST(NodeCpu, EndedThreadsLeaveAtAnyMoment) {
  Node node(one_core_only());
  Diary& a = node.poller(one_core(0));
  node.cpu.end(a.thread);  // ends the thread during the switch to it
  node.run_to(ms);
  EXPECT_TRUE(a.stays.empty());
  EXPECT_EQ(node.cpu.usage().busy_fraction() > 0.01, false);
  Diary& b = node.poller(one_core(0));
  Diary& c = node.poller(one_core(0));
  node.run_to(30 * ms);
  Diary& running = b.thread->is_on_core() ? b : c;
  Diary& waiting = b.thread->is_on_core() ? c : b;
  node.cpu.end(running.thread);
  node.run_to(40 * ms);
  EXPECT_TRUE(waiting.thread->is_on_core());
  node.cpu.wake(running.thread);
  EXPECT_EQ(running.thread->state(), ThreadState::ended);
  const std::uint64_t events = node.cpu.scheduling_events();
  node.run_to(10 * s);
  // one thread is left on the core, and ticks have stopped
  EXPECT_LE(node.cpu.scheduling_events(), events + 1);
}

TEST(NodeCpu, BooksCanBeReset) {
  Node node(twelve_cores());
  Diary& worker = node.poller(one_core(0));
  node.run_to(100 * ms);
  node.cpu.reset_usage();
  EXPECT_EQ(node.time(worker), 0);
  node.run_to(150 * ms);
  node.cpu.block(worker.thread);
  node.run_to(200 * ms);
  const CpuUsage usage = node.cpu.usage();
  EXPECT_EQ(usage.span, 100 * ms);
  EXPECT_EQ(usage.busy_ns, 50 * ms);
  EXPECT_EQ(usage.role_ns[static_cast<std::size_t>(ThreadRole::client)], 50 * ms);
  EXPECT_EQ(usage.idle_ns[3], 11 * 100 * ms + 50 * ms);
  EXPECT_EQ(usage.package_awake_ns, 50 * ms + 100 * us);
}

TEST(NodeCpu, ThreadsThatEndedMeanwhileAreInTheBooks) {
  Node node(twelve_cores());
  Diary& worker = node.poller(one_core(0));
  node.run_to(100 * ms);
  node.cpu.end(worker.thread);
  node.run_to(200 * ms);
  EXPECT_NEAR(node.cpu.usage().role_fraction(ThreadRole::client), 0.5, 1e-3);
  node.cpu.reset_usage();
  node.run_to(300 * ms);
  EXPECT_EQ(node.cpu.usage().role_threads[static_cast<std::size_t>(ThreadRole::client)], 0u);
}

std::vector<Nanos> fingerprint(std::uint64_t seed) {
  EventQueue queue;
  NodeCpu cpu(queue, twelve_cores(), SchedulerProfile{}, PowerProfile{}, seed);
  std::vector<SimThread*> threads;
  for (int i = 0; i < 17; ++i)
    threads.push_back(cpu.add_thread({.name = "hog", .role = ThreadRole::background, .is_background = true}));
  while (Event* event = queue.pop_until(3 * s)) event->fire(event);
  std::vector<Nanos> times;
  for (const SimThread* thread : threads) times.push_back(cpu.cpu_time(thread));
  return times;
}

TEST(NodeCpu, TheSeedDecidesEverything) {
  EXPECT_EQ(fingerprint(1), fingerprint(1));
  EXPECT_NE(fingerprint(1), fingerprint(2));
}

// Random wake-ups, blocks and pauses: all time of the cores is accounted as busy or idle, the busy time is
// that of the threads and of switching between them, and no core runs two threads at once.
TEST(NodeCpu, RandomLife) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed, "life");
    Node node(twelve_cores());
    std::vector<Diary*> diaries;
    for (int i = 0; i < 30; ++i)
      diaries.push_back(&node.poller(rng.chance(0.5) ? all_cores : rng() | one_core(1)));
    for (int step = 0; step < 3000; ++step) {
      SimThread* const thread = diaries[rng.below(diaries.size())]->thread;
      switch (rng.below(6)) {
        case 0:
        case 1:
          if (thread->is_on_core()) node.cpu.block(thread);
          break;
        case 2:
        case 3:
          node.cpu.wake(thread);
          break;
        case 4:
          node.cpu.pause(thread);
          break;
        default:
          node.cpu.resume(thread);
          break;
      }
      node.run_to(node.queue.now() + static_cast<Nanos>(rng.below(rng.chance(0.1) ? 20 * ms : 20 * us)));
    }
    const CpuUsage usage = node.cpu.usage();
    Nanos idle = usage.idle_shallow_ns;
    for (const Nanos state : usage.idle_ns) idle += state;
    EXPECT_EQ(usage.busy_ns + idle, usage.span * 12) << "seed " << seed;
    Nanos threads = 0;
    for (const Diary* diary : diaries) threads += node.time(*diary);
    EXPECT_EQ(threads + usage.switching_ns, usage.busy_ns) << "seed " << seed;
    std::map<std::uint32_t, int> on_core;
    for (const Diary* diary : diaries) {
      if (diary->thread->is_on_core()) EXPECT_EQ(++on_core[diary->thread->core()], 1);
    }
  }
}

}  // namespace
}  // namespace loch::fabric::sim
