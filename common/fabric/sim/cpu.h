// NodeCpu: the cores and threads of one simulated node.
//
// A thread is blocked, runnable (it waits for a core) or on_core. A thread that polls or computes is
// on_core for its whole time slice; a thread that is not on a core polls nothing. While no core of the node
// has two runnable threads there is no scheduling event at all. As soon as one core has two, scheduler ticks
// are scheduled, until no core has two any more.
//
// How a simulated worker uses it:
//   thread = cpu.add_thread({.name = "client 3", .allowed = one_core(3), .role = ThreadRole::client}, hooks);
//   cpu.wake(thread);                    // it becomes on_core some time later: hooks.on_scheduled
//   …  polls: deliver completions while thread->is_on_core(); when it is not, keep them for on_scheduled
//   cpu.block(thread); … cpu.wake(thread)          // sleeps
//
// The callback on_scheduled is called from an event of its own, never from inside a function of NodeCpu.
// on_descheduled is called when the thread loses its core against its will (its slice has ended, or it was
// preempted, paused or moved), from an event or from inside wake(), pause() or resume() of another thread;
// it must not call functions of NodeCpu. block() and end() call no callback of the thread that they concern.
//
// NodeCpu is deterministic and not thread-safe. All times are in nanoseconds of virtual time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/sim/cpu_profile.h"
#include "common/fabric/sim/event_queue.h"
#include "common/fabric/sim/scheduler.h"

namespace loch::fabric::sim {

enum class ThreadState : std::uint8_t { blocked, runnable, on_core, ended };
enum class ThreadRole : std::uint8_t { client, server, background, other };
constexpr std::size_t thread_roles = 4;

class SimThread;

// The callbacks of a thread; either may be null.
struct ThreadHooks {
  void (*on_scheduled)(SimThread* thread) = nullptr;
  void (*on_descheduled)(SimThread* thread) = nullptr;
  void* owner = nullptr;  // pointer that SimThread::owner() returns
};

struct ThreadSpec {
  std::string name;
  CoreSet allowed = all_cores;          // cores that the thread may run on; one_core(n) pins it
  ThreadRole role = ThreadRole::other;  // role under which the thread's CPU time is counted
  // true: a background worker: runnable from the start, never blocks, computes for ever
  bool is_background = false;
  std::uint32_t weight = 1024;    // the scheduler's load weight; 1024 is nice 0
  std::uint32_t parent_core = 0;  // core of the parent thread: preferred among equally loaded cores
};

class SimThread : SchedEntity {
 public:
  [[nodiscard]] ThreadState state() const { return state_; }
  [[nodiscard]] bool is_on_core() const { return state_ == ThreadState::on_core; }
  // the core on which the thread runs, or ran last
  [[nodiscard]] std::uint32_t core() const { return SchedEntity::core; }
  [[nodiscard]] const std::string& name() const { return spec_.name; }
  [[nodiscard]] ThreadRole role() const { return spec_.role; }
  [[nodiscard]] void* owner() const { return hooks_.owner; }

 private:
  friend class NodeCpu;
  SimThread(const ThreadSpec& spec, const ThreadHooks& hooks) : spec_(spec), hooks_(hooks) {
    allowed = spec.allowed;
    weight = spec.weight;
    SchedEntity::core = spec.parent_core;
  }

  ThreadSpec spec_;
  ThreadHooks hooks_;
  ThreadState state_ = ThreadState::blocked;
  bool is_paused_ = false;
  bool wakes_when_resumed_ = false;
  Nanos on_core_since_ = 0;  // time at which the thread last got its core
  Nanos cpu_ns_ = 0;         // CPU time since the last reset of the accounting
  Nanos ended_at_ = 0;       // time at which the thread ended, if it has
};

// CPU accounting of a node since the last reset.
struct CpuUsage {
  Nanos span = 0;  // virtual time that the accounting covers
  std::uint32_t cores = 0;
  Nanos busy_ns = 0;       // sum over all cores: time of threads, context switches and wake-ups
  Nanos switching_ns = 0;  // part of busy_ns that was spent on switching threads and leaving idle states
  std::array<Nanos, thread_roles> role_ns = {};  // CPU time of threads, by role
  // number of threads by role, ended ones included
  std::array<std::uint32_t, thread_roles> role_threads = {};
  std::array<Nanos, idle_states> idle_ns = {};  // cores' idle time by idle state, deepest last
  Nanos idle_shallow_ns = 0;                    // idle time of cores in periods too short for any idle state
  Nanos package_awake_ns = 0;                   // sum over sockets of the time in which some core was awake
  double background_hashes = 0;  // SHA-256 hashes that the background workers would have computed
  std::uint64_t wake_ups = 0;    // number of times that a core left idleness
  std::uint64_t ticks = 0, switches = 0, migrations = 0;

  // Share of the time of all cores in which they were busy.
  [[nodiscard]] double busy_fraction() const {
    return span > 0 ? static_cast<double>(busy_ns) / (static_cast<double>(span) * cores) : 0;
  }
  // CPU time of a role's threads as a share of what they would have had with a core each.
  [[nodiscard]] double role_fraction(ThreadRole role) const {
    const auto i = static_cast<std::size_t>(role);
    return span > 0 && role_threads[i] > 0
               ? static_cast<double>(role_ns[i]) / (static_cast<double>(span) * role_threads[i])
               : 0;
  }
};

class NodeCpu {
 public:
  // `seed` determines only the phase of the node's ticks. `queue` has to outlive the NodeCpu. The NodeCpu has
  // to outlive its events in the queue, some of which may be pending when the run ends.
  NodeCpu(EventQueue& queue, const CpuProfile& cpu, const SchedulerProfile& scheduler,
          const PowerProfile& power, std::uint64_t seed);
  NodeCpu(const NodeCpu&) = delete;
  NodeCpu& operator=(const NodeCpu&) = delete;

  // Adds a thread, which exists as long as the node. It starts blocked, but a background worker starts
  // runnable. `allowed` has to include a core of the node.
  SimThread* add_thread(const ThreadSpec& spec, const ThreadHooks& hooks = {});

  // Makes a blocked thread runnable, and soon on_core. No effect on a thread that is awake or has ended.
  void wake(SimThread* thread);
  // Makes the thread blocked; it leaves its core.
  void block(SimThread* thread);
  // Ends the thread for good, as when a worker is killed.
  void end(SimThread* thread);
  // As SIGSTOP and SIGCONT do: a paused thread gets no core, and is runnable after resume() if it was woken
  // meanwhile.
  void pause(SimThread* thread);
  void resume(SimThread* thread);

  [[nodiscard]] CpuUsage usage() const;
  void reset_usage();
  // CPU time of a thread since the last reset of the accounting.
  [[nodiscard]] Nanos cpu_time(const SimThread* thread) const {
    return thread->cpu_ns_ + (thread->is_on_core() ? counted(thread->on_core_since_) : 0);
  }
  [[nodiscard]] const CpuProfile& profile() const { return cpu_; }
  // Number of cores that run a thread or switch to one.
  [[nodiscard]] std::uint32_t busy_cores() const { return busy_cores_; }
  // Number of events that the scheduling of this node has caused so far: ticks, and dispatches after a
  // switch.
  [[nodiscard]] std::uint64_t scheduling_events() const { return scheduling_events_; }
  [[nodiscard]] EventQueue& queue() { return queue_; }

 private:
  struct Core : Event {  // the event fires when the core's context switch ends
    NodeCpu* cpu = nullptr;
    std::uint32_t index = 0;
    SimThread* running = nullptr;  // the thread that is on_core; null while the core is idle or switching
    SimThread* next = nullptr;     // the chosen thread, which is on_core when the switch has ended
    SimThread* last = nullptr;     // the thread that ran last; switching back to it costs nothing
    bool is_idle = true;           // true: the core neither runs a thread nor switches to one
    bool is_switching = false;
    bool needs_pick = false;  // true: the next thread has to be chosen anew when the switch has ended
    Nanos since = 0;          // when the present state (idle, switching, running) began
  };
  struct Tick : Event {
    NodeCpu* cpu = nullptr;
    bool is_armed = false;
  };

  struct Package {
    std::uint32_t idle_cores = 0;
    Nanos since = 0;  // when the package's present state (all of its cores idle, or not) began
  };

  static SimThread* thread_of(SchedEntity* entity) { return static_cast<SimThread*>(entity); }
  static void on_switched(Event* self);
  static void on_tick(Event* self);
  void tick();
  void arm_tick();
  void leave(SimThread* thread, ThreadState state);
  void check_preemption(Core& core, const SchedEntity& queued);
  void reschedule(Core& core);
  void start_switch(Core& core, SimThread* next);
  void put_on(Core& core, SimThread* thread);
  void take_off(Core& core);
  void take_moved(Core& core, const std::vector<Scheduler::Moved>& moved);
  // CPU accounting, implemented in cpu_usage.cc.
  void enter_idle(Core& core);
  Nanos leave_idle(Core& core);
  // index of the idle state for an idle period of this length; idle_states if it is too short for any
  [[nodiscard]] std::size_t idle_state(Nanos idle) const;
  [[nodiscard]] Nanos counted(Nanos since) const {
    return queue_.now() - (since > books_since_ ? since : books_since_);
  }
  void book_idle(CpuUsage& books, const Core& core) const;
  void book_package(CpuUsage& books, const Package& package, bool was_idle) const;

  EventQueue& queue_;
  CpuProfile cpu_;
  PowerProfile power_;
  Scheduler scheduler_;
  Nanos tick_length_, switch_cost_, wakeup_cost_;
  Nanos exit_latency_[idle_states + 1] = {};
  Nanos residency_[idle_states] = {};
  std::vector<Core> cores_;
  std::uint32_t busy_cores_ = 0;
  std::vector<std::unique_ptr<SimThread>> threads_;
  Tick tick_;
  Nanos tick_phase_ = 0;
  std::vector<Package> packages_;
  CpuUsage books_;  // usage since books_since_, except for the current period of each core, thread and socket
  Nanos books_since_ = 0;
  std::uint64_t migrations_before_ = 0;
  std::uint64_t scheduling_events_ = 0;
};

}  // namespace loch::fabric::sim
