// The threads of a simulated node: waking, blocking, sharing of cores, and the CPU time of each.
#include "common/fabric/sim/cpu.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/fabric/sim/scheduler_costs.h"

namespace loch::fabric::sim {

namespace {

Nanos from_us(double us) { return static_cast<Nanos>(us * 1e3 + 0.5); }

}  // namespace

NodeCpu::NodeCpu(EventQueue& queue, const CpuProfile& cpu, const SchedulerProfile& scheduler,
                 const PowerProfile& power, std::uint64_t seed)
    : queue_(queue),
      cpu_(cpu),
      power_(power),
      scheduler_(cpu, scheduler),
      tick_length_(from_us(scheduler.tick_ms * 1e3)),
      switch_cost_(from_us(scheduler.context_switch_us)),
      wakeup_cost_(from_us(scheduler.wakeup_us)),
      cores_(cpu.cores),
      packages_(std::max(cpu.sockets, 1u)),
      books_since_(queue.now()) {
  LOCH_CHECK(tick_length_ > 0, "ticks of no time");
  for (std::uint32_t i = 0; i < idle_states; ++i) {
    residency_[i] = from_us(power.idle[i].residency_us);
    exit_latency_[i] = from_us(power.idle[i].exit_us);
  }
  for (std::uint32_t i = 0; i < cpu.cores; ++i) {
    cores_[i].cpu = this;
    cores_[i].index = i;
    cores_[i].fire = on_switched;
    cores_[i].since = queue.now();
    scheduler_.went_idle(i, queue.now());
  }
  for (Package& package : packages_) package = {scheduler_.cores_per_socket(), queue.now()};
  tick_.cpu = this;
  tick_.fire = on_tick;
  tick_phase_ = static_cast<Nanos>(Rng(seed, "tick").below(static_cast<std::uint64_t>(tick_length_)));
}

// ---- Threads -------------------------------------------------------------------------------------

SimThread* NodeCpu::add_thread(const ThreadSpec& spec, const ThreadHooks& hooks) {
  const CoreSet existing = first_cores(scheduler_.cores());
  LOCH_CHECK((spec.allowed & existing) != 0, "thread {} may run on no core of the {}", spec.name,
             cores_.size());
  LOCH_CHECK(spec.weight > 0, "thread {} has no weight", spec.name);
  LOCH_CHECK(spec.parent_core < cores_.size(), "thread {} is started from core {} of {}", spec.name,
             spec.parent_core, cores_.size());
  threads_.push_back(std::unique_ptr<SimThread>(new SimThread(spec, hooks)));
  SimThread* const thread = threads_.back().get();
  thread->allowed &= existing;
  if (spec.is_background) wake(thread);
  return thread;
}

void NodeCpu::wake(SimThread* thread) {
  if (thread->state_ != ThreadState::blocked) return;
  if (thread->is_paused_) {
    thread->wakes_when_resumed_ = true;
    return;
  }
  Core& core = cores_[scheduler_.place(*thread)];
  thread->state_ = ThreadState::runnable;
  scheduler_.enqueue(thread, core.index, queue_.now());
  if (core.running == nullptr && !core.is_switching) {
    scheduler_.woke_from_idle(core.index, queue_.now());
    reschedule(core);
  } else {
    check_preemption(core, *thread);
  }
  arm_tick();
}

void NodeCpu::block(SimThread* thread) { leave(thread, ThreadState::blocked); }

void NodeCpu::end(SimThread* thread) {
  if (thread->state_ == ThreadState::ended) return;
  thread->ended_at_ = queue_.now();
  leave(thread, ThreadState::ended);
}

void NodeCpu::pause(SimThread* thread) {
  if (thread->is_paused_ || thread->state_ == ThreadState::ended) return;
  const bool was_awake = thread->state_ != ThreadState::blocked;
  const bool was_on_core = thread->is_on_core();
  leave(thread, ThreadState::blocked);
  thread->is_paused_ = true;
  thread->wakes_when_resumed_ = was_awake;
  if (was_on_core && thread->hooks_.on_descheduled != nullptr) thread->hooks_.on_descheduled(thread);
}

void NodeCpu::resume(SimThread* thread) {
  if (!thread->is_paused_) return;
  thread->is_paused_ = false;
  if (thread->wakes_when_resumed_) wake(thread);
}

void NodeCpu::leave(SimThread* thread, ThreadState state) {
  if (thread->state_ == ThreadState::ended) return;
  if (thread->state_ == ThreadState::blocked) {
    thread->state_ = state;
    thread->wakes_when_resumed_ = false;
    return;
  }
  Core& core = cores_[thread->core()];
  const bool was_running = core.running == thread;
  if (was_running) take_off(core);
  if (core.next == thread) {
    core.next = nullptr;
    core.needs_pick = true;
  }
  scheduler_.dequeue(thread, queue_.now());
  thread->state_ = state;
  if (was_running) reschedule(core);
}

// ---- What a core does when it gets a thread or runs out of threads -------------------------------

// Called when a thread was queued on a core that is not idle: decides whether it preempts the running one.
void NodeCpu::check_preemption(Core& core, const SchedEntity& queued) {
  if (!scheduler_.preempts(queued, queue_.now())) return;
  if (core.is_switching) {
    core.needs_pick = true;
  } else {
    reschedule(core);
  }
}

// Lets the scheduler choose the core's next thread. The core must not be in the middle of a switch.
void NodeCpu::reschedule(Core& core) {
  SimThread* next = thread_of(scheduler_.pick(core.index, queue_.now()));
  if (next != nullptr && next == core.running) return;
  if (SimThread* const lost = core.running; lost != nullptr) {
    take_off(core);
    if (lost->hooks_.on_descheduled != nullptr) lost->hooks_.on_descheduled(lost);
  }
  if (next == nullptr && !scheduler_.balance_newly_idle(core.index, queue_.now()).empty()) {
    next = thread_of(scheduler_.pick(core.index, queue_.now()));
  }
  if (next != nullptr) {
    start_switch(core, next);
  } else if (!core.is_idle) {
    enter_idle(core);
  }
}

void NodeCpu::start_switch(Core& core, SimThread* next) {
  const bool was_idle = core.is_idle, is_other = core.last != next;
  const Nanos exit = was_idle ? leave_idle(core) : 0;
  const Nanos cost = dispatch_time(is_other, switch_cost_, was_idle, wakeup_cost_, exit);
  if (is_other) ++books_.switches;
  core.since = queue_.now();
  core.next = next;
  core.is_switching = true;
  ++scheduling_events_;
  queue_.push(&core, queue_.now() + cost);
}

void NodeCpu::on_switched(Event* self) {
  Core& core = *static_cast<Core*>(self);
  NodeCpu& cpu = *core.cpu;
  const Nanos spent = cpu.counted(core.since);
  cpu.books_.switching_ns += spent;
  cpu.books_.busy_ns += spent;
  SimThread* const next = core.next;
  core.is_switching = false;
  core.next = nullptr;
  if (!core.needs_pick) {
    cpu.put_on(core, next);
    return;
  }
  core.needs_pick = false;
  SimThread* const better = thread_of(cpu.scheduler_.pick(core.index, cpu.queue_.now()));
  if (better != nullptr && better == next) {
    cpu.put_on(core, next);
  } else if (better != nullptr) {
    core.last = next;
    cpu.start_switch(core, better);
  } else {
    cpu.reschedule(core);  // no thread of this core is runnable any more
  }
}

void NodeCpu::put_on(Core& core, SimThread* thread) {
  core.running = thread;
  core.last = thread;
  core.since = queue_.now();
  thread->state_ = ThreadState::on_core;
  thread->on_core_since_ = queue_.now();
  if (thread->hooks_.on_scheduled != nullptr) thread->hooks_.on_scheduled(thread);
}

void NodeCpu::take_off(Core& core) {
  SimThread* const thread = core.running;
  const Nanos ran = counted(thread->on_core_since_);
  thread->cpu_ns_ += ran;
  books_.role_ns[static_cast<std::size_t>(thread->role())] += ran;
  books_.busy_ns += ran;
  thread->state_ = ThreadState::runnable;
  core.running = nullptr;
  core.since = queue_.now();
}

// ---- Ticks ---------------------------------------------------------------------------------------

// Schedules the next tick. All cores of a node tick at the same instant, as Linux does by default.
void NodeCpu::arm_tick() {
  if (tick_.is_armed || !scheduler_.is_contended()) return;
  tick_.is_armed = true;
  const Nanos since = queue_.now() - tick_phase_;
  const Nanos periods = since < 0 ? 0 : since / tick_length_ + 1;
  queue_.push(&tick_, tick_phase_ + periods * tick_length_);
}

void NodeCpu::on_tick(Event* self) {
  auto* const tick = static_cast<Tick*>(self);
  tick->is_armed = false;
  tick->cpu->tick();
}

void NodeCpu::tick() {
  if (!scheduler_.is_contended()) return;
  ++scheduling_events_;
  ++books_.ticks;
  for (Core& core : cores_) {
    if (core.running != nullptr && scheduler_.slice_over(core.index, queue_.now())) reschedule(core);
    const auto& moved = scheduler_.balance_if_due(core.index, queue_.now());
    if (!moved.empty()) take_moved(core, std::vector(moved));
  }
  arm_tick();
}

// Called after balancing has moved threads to `core`. A moved thread may have been running on its former
// core, which then switches to another thread.
void NodeCpu::take_moved(Core& core, const std::vector<Scheduler::Moved>& moved) {
  for (const Scheduler::Moved& move : moved) {
    if (!move.was_running) continue;
    Core& from = cores_[move.from];
    SimThread* const thread = thread_of(move.entity);
    if (from.running == thread) {
      take_off(from);
      if (thread->hooks_.on_descheduled != nullptr) thread->hooks_.on_descheduled(thread);
      reschedule(from);
    } else if (from.next == thread) {
      from.next = nullptr;
      from.needs_pick = true;
    }
  }
  if (core.running == nullptr && !core.is_switching) {
    reschedule(core);
    return;
  }
  for (const Scheduler::Moved& move : moved) {
    if (move.entity->core == core.index) check_preemption(core, *move.entity);
  }
}

}  // namespace loch::fabric::sim
