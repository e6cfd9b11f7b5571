// NodeCpu: the cores and threads of one simulated node.
//
// A thread is blocked, runnable (it waits for a core) or on_core. A thread that polls or computes is
// simply on_core: it burns its slice, and a thread that is not on a core polls nothing. While no core
// of the node has two runnable threads there is no scheduling event at all; as soon as one has, ticks
// are armed, and they stop when it is over.
//
// How a simulated worker uses it:
//   thread = cpu.add_thread({.name = "client 3", .allowed = one_core(3), .role = ThreadRole::client}, hooks);
//   cpu.wake(thread);                    // it becomes on_core some time later: hooks.on_scheduled
//   …  polls: deliver completions while thread->is_on_core(); when it is not, keep them for on_scheduled
//   cpu.block(thread); … cpu.wake(thread)          // sleeps
//
// Callbacks come as follows. on_scheduled: from an event of its own, never from inside a call of
// yours. on_descheduled: when the thread loses its core against its will (slice over, preempted,
// paused, moved), from an event or from inside wake(), pause() or resume() of another thread; it may take
// notes only, and call nothing here. block() and end() call no hook of their own thread.
//
// Deterministic; one thread only. Everything is in nanoseconds of virtual time.
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

// Whom NodeCpu tells. Either may be null.
struct ThreadHooks {
  void (*on_scheduled)(SimThread* thread) = nullptr;
  void (*on_descheduled)(SimThread* thread) = nullptr;
  void* owner = nullptr;  // SimThread::owner()
};

struct ThreadSpec {
  std::string name;
  CoreSet allowed = all_cores;          // cores it may run on; one_core(n) pins it
  ThreadRole role = ThreadRole::other;  // for CPU accounting
  bool is_background = false;           // wakes at once, never blocks, computes for ever
  std::uint32_t weight = 1024;          // 1024: nice 0
  std::uint32_t parent_core = 0;        // core of the parent thread: preferred among equally loaded cores
};

class SimThread : SchedEntity {
 public:
  [[nodiscard]] ThreadState state() const { return state_; }
  [[nodiscard]] bool is_on_core() const { return state_ == ThreadState::on_core; }
  [[nodiscard]] std::uint32_t core() const { return SchedEntity::core; }  // now, or the last one
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
  Nanos on_core_since_ = 0;  // while on_core
  Nanos cpu_ns_ = 0;         // since the books were reset
  Nanos ended_at_ = 0;       // once ended
};

// CPU accounting of a node since the last reset.
struct CpuUsage {
  Nanos span = 0;  // of virtual time
  std::uint32_t cores = 0;
  Nanos busy_ns = 0;       // over all cores: time of threads, context switches and wake-ups
  Nanos switching_ns = 0;  // … of it: switching threads, leaving idle states
  std::array<Nanos, thread_roles> role_ns = {};               // CPU time of threads, by role
  std::array<std::uint32_t, thread_roles> role_threads = {};  // also those that have ended
  std::array<Nanos, idle_states> idle_ns = {};                // cores' idle time by idle state, deepest last
  Nanos idle_shallow_ns = 0;                                  // … in periods too short for any state
  Nanos package_awake_ns = 0;                                 // sum over sockets
  double background_hashes = 0;  // SHA-256 hashes that the background workers would have made
  std::uint64_t wake_ups = 0;    // of cores, from idle
  std::uint64_t ticks = 0, switches = 0, migrations = 0;

  // Fraction of all cores' time.
  [[nodiscard]] double busy_fraction() const {
    return span > 0 ? static_cast<double>(busy_ns) / (static_cast<double>(span) * cores) : 0;
  }
  // CPU time of a role's threads, as a fraction of the time they could have had with a core each.
  [[nodiscard]] double role_fraction(ThreadRole role) const {
    const auto i = static_cast<std::size_t>(role);
    return span > 0 && role_threads[i] > 0
               ? static_cast<double>(role_ns[i]) / (static_cast<double>(span) * role_threads[i])
               : 0;
  }
};

class NodeCpu {
 public:
  // `seed` decides the phase of the node's ticks, nothing else. The queue must outlive the node, and
  // the node the events that are pending when the run ends.
  NodeCpu(EventQueue& queue, const CpuProfile& cpu, const SchedulerProfile& scheduler,
          const PowerProfile& power, std::uint64_t seed);
  NodeCpu(const NodeCpu&) = delete;
  NodeCpu& operator=(const NodeCpu&) = delete;

  // A new, blocked thread (a background worker is woken at once); lives as long as the node. `allowed` must
  // name a core that exists.
  SimThread* add_thread(const ThreadSpec& spec, const ThreadHooks& hooks = {});

  // blocked -> runnable or (soon) on_core. Nothing happens to a thread that is awake, or has ended.
  void wake(SimThread* thread);
  // -> blocked: it gives its core up.
  void block(SimThread* thread);
  // -> ended, for good: a worker that was killed.
  void end(SimThread* thread);
  // SIGSTOP and SIGCONT: a paused thread gets no core, and keeps its wake-ups.
  void pause(SimThread* thread);
  void resume(SimThread* thread);

  [[nodiscard]] CpuUsage usage() const;
  void reset_usage();
  // CPU time of one thread since the books were reset.
  [[nodiscard]] Nanos cpu_time(const SimThread* thread) const {
    return thread->cpu_ns_ + (thread->is_on_core() ? counted(thread->on_core_since_) : 0);
  }
  [[nodiscard]] const CpuProfile& profile() const { return cpu_; }
  // Events that this node's scheduling has made so far: ticks, and dispatches after a switch.
  [[nodiscard]] std::uint64_t scheduling_events() const { return scheduling_events_; }
  [[nodiscard]] EventQueue& queue() { return queue_; }

 private:
  struct Core : Event {  // the event ends the switch that is under way
    NodeCpu* cpu = nullptr;
    std::uint32_t index = 0;
    SimThread* running = nullptr;  // on_core; null while idle or switching
    SimThread* next = nullptr;     // chosen; on_core when the switch is over
    SimThread* last = nullptr;     // ran last: coming back to it costs no switch
    bool is_idle = true;           // neither running nor switching
    bool is_switching = false;
    bool needs_pick = false;  // the choice is to be made anew when the switch is over
    Nanos since = 0;          // of the present state: idle, switching or running
  };
  struct Tick : Event {
    NodeCpu* cpu = nullptr;
    bool is_armed = false;
  };

  struct Package {
    std::uint32_t idle_cores = 0;
    Nanos since = 0;  // of its state: all its cores idle, or not
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
  // Books: cpu_usage.cc.
  void enter_idle(Core& core);
  Nanos leave_idle(Core& core);
  [[nodiscard]] std::size_t idle_state(Nanos idle) const;  // idle_states: too short for any
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
  std::vector<std::unique_ptr<SimThread>> threads_;
  Tick tick_;
  Nanos tick_phase_ = 0;
  std::vector<Package> packages_;
  CpuUsage books_;  // since books_since_, without the states that still last
  Nanos books_since_ = 0;
  std::uint64_t migrations_before_ = 0;
  std::uint64_t scheduling_events_ = 0;
};

}  // namespace loch::fabric::sim
