// A worker that is a thread of this machine in real time: its run queue, timers, waits for memory words, and
// the order in which it polls. A derived class does what depends on the device (posting, completions,
// arrivals, reconnecting). No function here allocates, locks, throws or enters the kernel per operation after
// warm-up. The kernel is entered by sleep_until, and, where there are more workers than cores, to yield the
// core after a number of fruitless polls: by sched_yield, or, if other programs keep the core for long after
// each yield, by sleeping until a doorbell rings.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/coro/run_queue.h"
#include "common/fabric/fabric.h"
#include "common/fabric/realtime/tsc_clock.h"

namespace loch::fabric::realtime {

// State shared by the workers of one process; constant during the run, except for the atomics.
struct Shared {
  Capabilities capabilities;
  Nanos clock_base = 0;  // CLOCK_MONOTONIC at the zero of the fabric's clock
  // true: workers read the time-stamp counter; false: CLOCK_MONOTONIC. To be set before workers are added.
  bool clocks_by_ticks = false;
  // If set, all workers read the time-stamp counter by this one function. To be set before workers are added.
  TickLine tick_line;
  std::atomic<bool> stopping = false;
  std::atomic<bool> interrupted = false;
  std::atomic<bool> deadlocked = false;
  // Whether the polling loop executes the processor's pause instruction between two iterations. To be set
  // before the threads start.
  bool pauses = true;
  // Where workers share cores: number of iterations of the polling loop in a row that find nothing, after
  // which a worker yields its core.
  std::uint32_t turns_before_yield = 64;
  std::atomic<bool> is_crowded = false;  // workers share cores, and yield them after fruitless polls
  [[nodiscard]] Nanos now() const;
  // Tells every worker's main coroutine to stop before the regular end of the run.
  void interrupt() {
    interrupted.store(true, std::memory_order_relaxed);
    stopping.store(true, std::memory_order_relaxed);
  }
};

class RealtimeWorker : public Worker {
 public:
  RealtimeWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared)
      : Worker(spec, seed, &run_queue_), shared_(shared), clock_(shared->clocks_by_ticks, shared->tick_line) {
    set_watches_at_once();
  }

  [[nodiscard]] Nanos now() const final {
    Nanos at = 0;
    return clock_.read(at) ? at - shared_->clock_base : now_by_comparison();
  }
  [[nodiscard]] Nanos node_clock() const final { return now(); }
  [[nodiscard]] bool stopping() const final { return shared_->stopping.load(std::memory_order_relaxed); }
  [[nodiscard]] const Capabilities& capabilities() const final { return shared_->capabilities; }
  void store_word(Region& region, std::uint64_t offset, std::uint64_t value) final;
  void begin_timer(TimerWait* wait) final;
  void begin_watch(WatchWait* wait) final;
  void begin_receive(ReceiveWait* wait) final;
  void begin_reconnect(ReconnectWait* wait) final;
  void begin_compute(Nanos span, std::coroutine_handle<> waiter) final;

  // The body of the thread: runs `main` to its end. Returns false if no coroutine of this worker can ever be
  // resumed again.
  [[nodiscard]] bool run(coro::Task<void>* main);

  // How often this worker yielded its core and how often it slept; readable from any thread.
  std::atomic<std::uint64_t> yields = 0, sleeps = 0;

 protected:
  [[nodiscard]] bool do_watch_at_once(WatchWait& wait) final;
  // Polls the device: delivers completions to their sinks and tries stalled requests again. Returns false if
  // nothing changed.
  virtual bool poll_device() = 0;
  // Gives the device the requests that coroutines posted. Called when the coroutines that were ready in a
  // round of the polling loop have run, and before the thread does anything but poll.
  virtual void end_turn() {}
  // Whether posted requests have not ended yet, so that polling has to go on.
  [[nodiscard]] virtual bool device_is_busy() const = 0;
  // Whether some completion has not been delivered to its sink yet.
  [[nodiscard]] virtual bool owes_completions() const = 0;
  // Delivers arrived messages of a transport to the waiters, first come first served, by finish_receive.
  virtual bool poll_arrivals(Transport transport, ReceiveWait*& waiters) = 0;
  // Called on the worker's own thread, before its main coroutine starts.
  virtual void enter_thread() {}
  // Continues connecting to a peer; returns true once connected.
  [[nodiscard]] virtual bool try_reconnect(NodeId peer) = 0;

  // Arms a doorbell that rings when an awaited event may have happened, so that the worker can sleep where
  // cores are shared. False: this fabric has no doorbells.
  [[nodiscard]] virtual bool arm_doorbell() { return false; }
  virtual void disarm_doorbell() {}
  virtual void sleep_until_rung(Nanos /*most*/) {}
  // Called after this worker stored to a word of its node's memory that other workers may be waiting for.
  virtual void has_stored(const Region& /*region*/, std::uint64_t /*offset*/) {}
  // The bytes whose change this worker waits for, if they lie in one region. Null `region`: it waits for
  // words of several regions, or for none.
  struct Span {
    const Region* region = nullptr;
    std::uint64_t begin = 0, end = 0;
  };
  [[nodiscard]] Span watched() const;
  [[nodiscard]] bool is_watching() const { return watches_ != nullptr; }

  // Resumes the first of the coroutines that wait for a message; its `result` already holds the message.
  void finish_receive(ReceiveWait*& waiters);
  // Lets the coroutines that became ready meanwhile run up to `rounds` times before the next poll. For a
  // fabric whose requests and messages are there at once: a coroutine that begins to wait then mostly becomes
  // ready again without a poll.
  void set_rounds_a_turn(std::uint32_t rounds) { rounds_a_turn_ = rounds; }
  // The fabric's time in ns when the polling loop last read the clock, which it does not do in every round.
  [[nodiscard]] Nanos recent_time() const { return time_; }
  void refresh_time() { time_ = now(); }
  void give_up_core();

 private:
  bool poll_watches(bool looks_at_links);
  bool poll_receives();
  bool poll_receive(Transport transport);
  bool poll_timers();
  bool poll_reconnects();
  [[nodiscard, gnu::cold, gnu::noinline]] Nanos now_by_comparison() const {
    return clock_.now() - shared_->clock_base;
  }
  // `is_stopping`: stopping(), as it was before the call. `looks_at_links`: whether a connection that has
  // failed ends the wait.
  [[nodiscard]] bool watch_ended(WatchWait& wait, bool is_stopping, bool looks_at_links);
  [[nodiscard]] static bool find_ready(WatchWait& wait);
  [[nodiscard]] static bool first_is_ready(WatchWait& wait, std::uint32_t start);
  [[nodiscard]] static bool find_ready(WatchWait& wait, std::uint32_t from, std::uint32_t to);
  [[gnu::noinline]] void resume(std::size_t ready);
  [[nodiscard]] bool turn();  // polls everything once; false if nothing changed
  [[nodiscard]] bool idle();  // pauses or sleeps; false if no coroutine can ever be resumed again
  void share_core();          // where workers share cores: yields the core or sleeps
  void wake_up();
  [[nodiscard]] bool is_receiving() const {
    return receivers_[0] != nullptr || receivers_[1] != nullptr || receivers_[2] != nullptr;
  }

  Shared* shared_;
  mutable TscClock clock_;  // mutable because now() may compare the clock with CLOCK_MONOTONIC anew
  coro::RunQueue run_queue_;
  // for each transport, the list of coroutines that wait for a message, the longest waiting first
  ReceiveWait* receivers_[3] = {};
  WatchWait* watches_ = nullptr;         // list of waits for memory words, in the order in which they began
  WatchWait** watches_end_ = &watches_;  // the null pointer at the end of that list
  TimerWait* timers_ = nullptr;          // list of timers, the soonest first
  std::uint32_t spinning_timers_ = 0;
  ReconnectWait* reconnects_ = nullptr;
  std::uint64_t turns_ = 0;
  std::uint32_t rounds_a_turn_ = 1;
  std::uint32_t fruitless_turns_ = 0;
  Nanos time_ = 0;
  Nanos sleeps_until_ = 0;  // until this instant the worker sleeps rather than yields its core
  bool is_armed_ = false;   // true while the worker sleeps or is about to sleep: senders must then wake it
  bool main_ended_ = false;
};

}  // namespace loch::fabric::realtime
