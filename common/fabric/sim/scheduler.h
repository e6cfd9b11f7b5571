// The scheduler of one node: which thread each core runs next. A model of Linux' completely fair
// scheduler (kernel 3.13, kernel/sched/fair.c): virtual run time, slices that end on ticks, wake-up
// placement and preemption, idle and periodic balancing between cores and sockets. It decides and
// keeps the books of the run queues; NodeCpu (cpu.h) owns time, events and callbacks.
//
// Left out, with no weight here: buddies (a wake-up hint of one tick), load averages over time (a
// core's load is the weight of what it runs now), groups and autogroups (the harness puts servers and
// hogs into one group, see docs), real-time classes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/units.h"
#include "common/fabric/sim/cpu_profile.h"

namespace loch::fabric::sim {

// Cores of one node, bit by number.
using CoreSet = std::uint64_t;
constexpr CoreSet all_cores = ~CoreSet{0};
[[nodiscard]] constexpr CoreSet one_core(std::uint32_t core) { return CoreSet{1} << core; }

// What the scheduler keeps of a thread.
struct SchedEntity {
  Nanos vruntime = 0;        // on a queue: absolute for its core; else relative to it (see dequeue)
  Nanos ran_since_pick = 0;  // since it was last chosen
  Nanos last_ran = -1;       // when it was last seen running; a recent runner is hot
  std::uint64_t sequence = 0;  // ties of vruntime: first queued, first run
  std::uint32_t weight = 1024;
  std::uint32_t core = 0;    // where it runs, waits, or ran last
  CoreSet allowed = all_cores;
  bool is_queued = false;    // runnable, running included
  bool is_new = true;        // never queued yet
};

class Scheduler {
 public:
  enum class Idleness : std::uint8_t { newly_idle, idle, busy };
  // A thread that balancing took from another core. If it was running there, that core must pick
  // again (active balancing).
  struct Moved {
    SchedEntity* entity = nullptr;
    std::uint32_t from = 0;
    bool was_running = false;
  };

  Scheduler(const CpuProfile& cpu, const SchedulerProfile& profile);

  // ---- Life on a queue ----
  // The core on which a waking thread goes: its last one if idle, else an idle one that shares the
  // cache, else its last one; a new thread goes to the least loaded socket and core.
  [[nodiscard]] std::uint32_t place(const SchedEntity& entity) const;
  // Queues a blocked thread on `core` at `now`.
  void enqueue(SchedEntity* entity, std::uint32_t core, Nanos now);
  // Takes a thread off its core (it blocks or ends). If it ran, the core has no current any more.
  void dequeue(SchedEntity* entity, Nanos now);
  // Does the thread just queued preempt the one that runs on its core?
  [[nodiscard]] bool preempts(const SchedEntity& waking, Nanos now);
  // Has the running thread used its slice up? Called at ticks.
  [[nodiscard]] bool slice_over(std::uint32_t core, Nanos now);
  // Puts the running thread back on the queue and chooses the next; null when there is none.
  SchedEntity* pick(std::uint32_t core, Nanos now);

  // ---- Balancing ----
  // Pulls threads to `core`. Returns those that moved; they are queued on `core` now.
  const std::vector<Moved>& balance_newly_idle(std::uint32_t core, Nanos now);
  const std::vector<Moved>& balance_if_due(std::uint32_t core, Nanos now);
  // For the estimate of how long the core stays idle, which decides if newly-idle balancing pays.
  void went_idle(std::uint32_t core, Nanos now) { cores_[core].idle_since = now; }
  void woke_from_idle(std::uint32_t core, Nanos now);

  [[nodiscard]] std::uint32_t runnable(std::uint32_t core) const { return cores_[core].runnable; }
  [[nodiscard]] SchedEntity* current(std::uint32_t core) const { return cores_[core].current; }
  // Is there a core with more than one runnable thread? Without one no tick is needed.
  [[nodiscard]] bool is_contended() const { return contended_ != 0; }
  [[nodiscard]] std::uint32_t cores() const { return static_cast<std::uint32_t>(cores_.size()); }
  [[nodiscard]] std::uint32_t socket_of(std::uint32_t core) const { return core / per_socket_; }

  struct Counters {
    std::uint64_t migrations = 0, preemptions_by_wakeup = 0, slices_ended = 0, active_balances = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Balance {
    Nanos interval = 0;
    Nanos last = 0;
    std::uint32_t failures = 0;
  };
  struct Core {
    SchedEntity* current = nullptr;
    std::vector<SchedEntity*> waiting;  // by (vruntime, sequence)
    Nanos min_vruntime = 0;
    Nanos updated = 0;                  // current's run time is in its vruntime up to here
    std::uint32_t runnable = 0;
    std::uint64_t load = 0;             // sum of weights of the runnable
    Nanos idle_since = -1;
    Nanos average_idle = 0;
    Balance balance[2];
  };
  // The threads that `core` might take over: from the busiest core of the busiest group.
  struct Imbalance {
    CoreSet group = 0;
    std::uint64_t load = 0;  // weight to be moved
  };

  void charge_current(Core& core, Nanos now);
  void update_min_vruntime(Core& core);
  void insert_waiting(Core& core, SchedEntity* entity);
  void attach(Core& core, SchedEntity* entity);
  void detach(Core& core, SchedEntity* entity);
  [[nodiscard]] Nanos slice(const Core& core, std::uint64_t weight, std::uint64_t load, std::uint32_t runnable) const;
  [[nodiscard]] std::uint32_t place_new(const SchedEntity& entity) const;
  [[nodiscard]] CoreSet socket_mask(std::uint32_t socket) const;
  [[nodiscard]] std::optional<Imbalance> find_imbalance(std::uint32_t core, unsigned level, Idleness idleness) const;
  [[nodiscard]] std::optional<std::uint32_t> busiest_core(CoreSet among) const;
  void balance(std::uint32_t core, unsigned level, Idleness idleness, Nanos now);
  bool pull_from(std::uint32_t from, std::uint32_t to, std::uint64_t load, bool take_hot, Nanos now);
  bool pull_running(std::uint32_t from, std::uint32_t to, Nanos now);
  void migrate(SchedEntity* entity, std::uint32_t to, Nanos now);

  SchedulerProfile profile_;
  std::uint32_t per_socket_;
  std::uint32_t sockets_;
  std::vector<Core> cores_;
  std::uint32_t contended_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::vector<Moved> moved_;
  Counters counters_;
};

}  // namespace loch::fabric::sim
