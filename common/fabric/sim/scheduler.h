// The scheduler of one node decides which thread each core runs next, and owns the run queues; NodeCpu
// (cpu.h) owns time, events and callbacks. It models Linux' completely fair scheduler (kernel 3.13,
// kernel/sched/fair.c): virtual run time, slices that end on ticks, wake-up placement and preemption, idle
// and periodic balancing between cores and sockets.
//
// Not modelled: buddies (a hint at wake-up that is valid for one tick); load averages over time (a core's
// load is the weight of its runnable threads, except where settling_ticks models how slowly an average
// converges); groups and autogroups (servers and background workers are in one group); real-time classes.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/units.h"
#include "common/fabric/sim/cpu_profile.h"

namespace loch::fabric::sim {

// a set of cores of one node; bit i is core i
__extension__ using CoreSet = unsigned __int128;
static_assert(most_cores <= 8 * sizeof(CoreSet));
constexpr CoreSet all_cores = ~CoreSet{0};
[[nodiscard]] constexpr CoreSet one_core(std::uint32_t core) { return CoreSet{1} << core; }
// The cores with the numbers 0 to n - 1.
[[nodiscard]] constexpr CoreSet first_cores(std::uint32_t n) {
  return n >= 8 * sizeof(CoreSet) ? all_cores : one_core(n) - 1;
}
// The lowest core of a set that is not empty.
[[nodiscard]] constexpr std::uint32_t lowest_core(CoreSet set) {
  const auto low = static_cast<std::uint64_t>(set);
  return static_cast<std::uint32_t>(low != 0 ? std::countr_zero(low)
                                             : 64 + std::countr_zero(static_cast<std::uint64_t>(set >> 64)));
}

// A thread's scheduling state.
struct SchedEntity {
  Nanos vruntime = 0;  // virtual run time relative to `core`: comparable only with that core's min_vruntime
  Nanos ran_since_pick = 0;  // run time since the thread was last chosen
  // when the thread was last seen running; for a while after that the core's cache still holds its data
  Nanos last_ran = INT64_MIN / 2;
  std::uint32_t weight = 1024;  // load weight; 1024 is that of nice 0
  // the core on which the thread runs, waits, or ran last; for a new thread, the core on which it was created
  std::uint32_t core = 0;
  CoreSet allowed = all_cores;
  bool is_queued = false;  // whether the thread is runnable; a running thread counts as queued
  bool is_new = true;      // whether the thread has never been queued
};

class Scheduler {
 public:
  enum class Idleness : std::uint8_t { newly_idle, idle, busy };
  // A thread that balancing moved from core `from` to another. If it was running on `from`, that core has to
  // choose its next thread (active balancing).
  struct Moved {
    SchedEntity* entity = nullptr;
    std::uint32_t from = 0;
    bool was_running = false;
  };

  Scheduler(const CpuProfile& cpu, const SchedulerProfile& profile);

  // ---- Threads enter a run queue, are chosen, and leave it ----
  // The core to which a waking thread goes: its last core if that is idle, else an idle core that shares its
  // cache, else its last core. A new thread goes to the least loaded core of the least loaded socket, on a
  // tie to the core on which it was created.
  [[nodiscard]] std::uint32_t place(const SchedEntity& entity) const;
  // Queues a blocked thread on `core` at `now`.
  void enqueue(SchedEntity* entity, std::uint32_t core, Nanos now);
  // Removes a thread from its core because it blocks or ends. If it was running, the core has no current
  // thread.
  void dequeue(SchedEntity* entity, Nanos now);
  // Whether the thread that was just queued preempts the running thread of its core.
  [[nodiscard]] bool preempts(const SchedEntity& waking, Nanos now);
  // Whether the running thread has used up its slice. Called at ticks.
  [[nodiscard]] bool slice_over(std::uint32_t core, Nanos now);
  // Puts the core's running thread back into its run queue and chooses the thread to run next; null if none
  // is runnable.
  SchedEntity* pick(std::uint32_t core, Nanos now);

  // ---- Balancing ----
  // Pulls threads from other cores to `core`. Returns the threads that moved, which are queued on `core` now.
  const std::vector<Moved>& balance_newly_idle(std::uint32_t core, Nanos now);
  const std::vector<Moved>& balance_if_due(std::uint32_t core, Nanos now);
  // Records that the core is idle from `now` on. The core's average idle time decides whether it pulls
  // threads when it next becomes idle.
  void went_idle(std::uint32_t core, Nanos now) { cores_[core].idle_since = now; }
  void woke_from_idle(std::uint32_t core, Nanos now);

  [[nodiscard]] std::uint32_t runnable(std::uint32_t core) const { return cores_[core].runnable; }
  // Whether some core has more than one runnable thread; otherwise no ticks are needed.
  [[nodiscard]] bool is_contended() const { return contended_ != 0; }
  [[nodiscard]] std::uint32_t cores() const { return static_cast<std::uint32_t>(cores_.size()); }
  [[nodiscard]] std::uint32_t cores_per_socket() const { return per_socket_; }
  [[nodiscard]] std::uint32_t socket_of(std::uint32_t core) const { return core / per_socket_; }

  struct Counters {
    std::uint64_t migrations = 0, active_balances = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  // levels of balancing: between the cores of a socket, and between the sockets of a node
  static constexpr unsigned balance_levels = 2;
  // Number of failed balancings after which threads with a warm cache are moved too, and after which a
  // running thread is moved.
  static constexpr std::uint32_t failures_before_hot = 1, failures_before_active = 3;
  // Ticks from a change of a core's load until its average load (cpu_load[2] of Linux, which moves by a
  // quarter of the difference each tick) is exactly the new load. Only then may a busy core with one thread
  // pull a thread from a core with two, which merely swaps their loads.
  static constexpr int settling_ticks = 24;

  struct Balance {
    Nanos interval = 0;
    Nanos last = 0;
    std::uint32_t failures = 0;
  };
  struct Core {
    SchedEntity* current = nullptr;
    std::vector<SchedEntity*> waiting;  // sorted by vruntime; among equals, in the order of queueing
    Nanos min_vruntime = 0;      // the lowest vruntime of the core's threads, except that it never decreases
    Nanos updated = 0;           // time up to which the running thread's vruntime was charged
    std::uint32_t runnable = 0;  // number of waiting threads, plus one if a thread is running
    std::uint64_t load = 0;      // sum of the weights of the runnable threads
    Nanos load_changed = 0;      // when `load` last changed
    Nanos idle_since = -1;       // when the core became idle; -1: it is busy, or the time is not estimated
    Nanos average_idle = 0;
    Balance balance[balance_levels];
  };
  // A socket or a single core. Load balancing compares the loads of two groups of the same kind.
  struct Group {
    CoreSet cores = 0;
    std::uint64_t load = 0;
    Nanos load_changed = 0;  // when the load of any of the group's cores last changed
    std::uint32_t runnable = 0, capacity = 0;
    [[nodiscard]] double average() const { return static_cast<double>(load) / capacity; }
    [[nodiscard]] double load_per_thread() const {
      return runnable == 0 ? 0 : static_cast<double>(load) / runnable;
    }
  };
  struct Imbalance {
    CoreSet busiest = 0;  // cores of the busiest group
    double load = 0;      // sum of the weights of the threads that have to be moved
  };
  enum class Pull : std::uint8_t { moved, failed, all_pinned };

  // Functions on the run queues, defined in scheduler.cc.
  void charge_current(Core& core, Nanos now);
  void update_min_vruntime(Core& core);
  void attach(Core& core, SchedEntity* entity, Nanos now);
  void detach(Core& core, SchedEntity* entity, Nanos now);
  static void insert_waiting(Core& core, SchedEntity* entity);
  static void remove_waiting(Core& core, SchedEntity* entity);
  [[nodiscard]] Nanos slice(std::uint32_t runnable, std::uint64_t weight, std::uint64_t load) const;
  [[nodiscard]] std::uint32_t place_new(const SchedEntity& entity) const;
  // Functions that balance the load, defined in balance.cc.
  [[nodiscard]] Group group_of(CoreSet cores) const;
  [[nodiscard]] CoreSet socket_mask(std::uint32_t socket) const;
  [[nodiscard]] bool balances_for_group(std::uint32_t core, unsigned level) const;
  [[nodiscard]] std::optional<Imbalance> find_imbalance(std::uint32_t core, unsigned level, Idleness idleness,
                                                        Nanos now) const;
  [[nodiscard]] static double small_imbalance(const Group& busiest, const Group& local, bool is_settled);
  [[nodiscard]] std::optional<std::uint32_t> busiest_core(CoreSet among) const;
  void balance(std::uint32_t core, unsigned level, Idleness idleness, Nanos now);
  Pull pull_from(std::uint32_t from, std::uint32_t to, double load, bool takes_hot, Nanos now);
  bool pull_running(std::uint32_t from, std::uint32_t to, Nanos now);
  void migrate(SchedEntity* entity, std::uint32_t to, Nanos now);

  // Constants that follow from SchedulerProfile, in nanoseconds.
  Nanos latency_, min_granularity_, wakeup_granularity_, sleeper_credit_, migration_cost_;
  Nanos balance_least_, balance_most_, settling_time_;
  double busy_factor_, imbalance_percent_;
  std::uint32_t max_pull_;

  std::uint32_t per_socket_;
  std::uint32_t sockets_;
  std::vector<Core> cores_;
  std::uint32_t contended_ = 0;  // cores with more than one runnable thread
  std::vector<Moved> moved_;
  Counters counters_;
};

}  // namespace loch::fabric::sim
