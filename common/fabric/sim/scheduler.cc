// Chooses which thread each simulated core runs next, as Linux's completely fair scheduler does.
#include "common/fabric/sim/scheduler.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/fabric/sim/scheduler_costs.h"

namespace loch::fabric::sim {

namespace {

Nanos from_ms(double ms) { return static_cast<Nanos>(ms * 1e6 + 0.5); }

}  // namespace

Scheduler::Scheduler(const CpuProfile& cpu, const SchedulerProfile& profile)
    : latency_(from_ms(profile.latency_ms)),
      min_granularity_(from_ms(profile.minimum_granularity_ms)),
      wakeup_granularity_(from_ms(profile.wakeup_granularity_ms)),
      sleeper_credit_(from_ms(profile.sleeper_credit_ms)),
      migration_cost_(from_ms(profile.migration_cost_ms)),
      balance_least_(from_ms(profile.balance_idle_ms)),
      balance_most_(from_ms(profile.balance_idle_most_ms)),
      settling_time_(from_ms(profile.tick_ms) * settling_ticks),
      busy_factor_(profile.balance_busy_ms / profile.balance_idle_ms),
      imbalance_percent_(profile.imbalance_percent),
      max_pull_(static_cast<std::uint32_t>(profile.max_pull)),
      sockets_(std::max(cpu.sockets, 1u)),
      cores_(cpu.cores) {
  LOCH_CHECK(cpu.cores >= 1 && cpu.cores <= most_cores, "a node has 1 to {} cores, not {}", most_cores,
             cpu.cores);
  LOCH_CHECK(cpu.cores % sockets_ == 0, "{} cores do not divide into {} sockets", cpu.cores, sockets_);
  LOCH_CHECK(min_granularity_ > 0 && latency_ > 0 && balance_least_ > 0, "a slice of no time");
  per_socket_ = cpu.cores / sockets_;
  for (std::uint32_t i = 0; i < cpu.cores; ++i) {
    cores_[i].average_idle = 2 * migration_cost_;
    for (Balance& balance : cores_[i].balance) {
      // The first balancing intervals of the cores end at different times, so that the cores do not all
      // balance at the same instant.
      balance.interval = balance_least_;
      balance.last = -static_cast<Nanos>(static_cast<double>(balance_least_) * busy_factor_ * i / cpu.cores);
    }
  }
}

// ---- Accounting of one run queue ---------------------------------------------------------------

void Scheduler::charge_current(Core& core, Nanos now) {
  SchedEntity* const running = core.current;
  if (running == nullptr) return;
  const Nanos ran = now - core.updated;
  core.updated = now;
  running->last_ran = now;
  running->ran_since_pick += ran;
  running->vruntime += virtual_runtime(ran, running->weight);
  update_min_vruntime(core);
}

void Scheduler::update_min_vruntime(Core& core) {
  if (core.runnable == 0) return;
  Nanos least = core.current != nullptr ? core.current->vruntime : core.waiting.front()->vruntime;
  if (!core.waiting.empty()) least = std::min(least, core.waiting.front()->vruntime);
  core.min_vruntime = std::max(core.min_vruntime, least);
}

void Scheduler::insert_waiting(Core& core, SchedEntity* entity) {
  const auto after = std::upper_bound(core.waiting.begin(), core.waiting.end(), entity->vruntime,
                                      [](Nanos v, const SchedEntity* other) { return v < other->vruntime; });
  core.waiting.insert(after, entity);
}

void Scheduler::remove_waiting(Core& core, SchedEntity* entity) {
  const auto at = std::find(core.waiting.begin(), core.waiting.end(), entity);
  LOCH_CHECK(at != core.waiting.end(), "a waiting thread is on its core's queue");
  core.waiting.erase(at);
}

void Scheduler::attach(Core& core, SchedEntity* entity, Nanos now) {
  insert_waiting(core, entity);
  entity->is_queued = true;
  core.load += entity->weight;
  core.load_changed = now;
  if (++core.runnable == 2) ++contended_;
  update_min_vruntime(core);
}

void Scheduler::detach(Core& core, SchedEntity* entity, Nanos now) {
  if (core.current == entity) {
    core.current = nullptr;
  } else {
    remove_waiting(core, entity);
  }
  entity->is_queued = false;
  core.load -= entity->weight;
  core.load_changed = now;
  if (--core.runnable == 1) --contended_;
  update_min_vruntime(core);
}

// Time slice of a thread: the scheduling period times `weight`/`load`, where `load` is the sum of the weights
// of the core's `runnable` threads.
Nanos Scheduler::slice(std::uint32_t runnable, std::uint64_t weight, std::uint64_t load) const {
  return time_slice(latency_, min_granularity_, runnable, weight, load);
}

// ---- Threads enter a run queue, are chosen, and leave it ---------------------------------------

void Scheduler::enqueue(SchedEntity* entity, std::uint32_t core_index, Nanos now) {
  LOCH_CHECK(!entity->is_queued, "a thread is queued once");
  Core& core = cores_[core_index];
  charge_current(core, now);
  if (entity->is_new) {
    entity->is_new = false;
    // A new thread starts one slice behind the others, so that starting threads gains no CPU time.
    const Nanos debit = slice(core.runnable + 1, entity->weight, core.load + entity->weight);
    entity->vruntime = core.min_vruntime + virtual_runtime(debit, entity->weight);
  } else {
    entity->vruntime += core.min_vruntime - cores_[entity->core].min_vruntime;
    entity->vruntime = woken_runtime(entity->vruntime, core.min_vruntime, sleeper_credit_);
  }
  entity->core = core_index;
  attach(core, entity, now);
}

void Scheduler::dequeue(SchedEntity* entity, Nanos now) {
  LOCH_CHECK(entity->is_queued, "only a queued thread leaves its queue");
  Core& core = cores_[entity->core];
  charge_current(core, now);
  detach(core, entity, now);
}

bool Scheduler::preempts(const SchedEntity& waking, Nanos now) {
  Core& core = cores_[waking.core];
  if (core.current == nullptr) return true;
  charge_current(core, now);
  return core.current->vruntime - waking.vruntime > virtual_runtime(wakeup_granularity_, waking.weight);
}

bool Scheduler::slice_over(std::uint32_t core_index, Nanos now) {
  Core& core = cores_[core_index];
  if (core.current == nullptr || core.runnable < 2) return false;
  charge_current(core, now);
  const Nanos ideal = slice(core.runnable, core.current->weight, core.load);
  const Nanos ran = core.current->ran_since_pick;
  if (ran > ideal) return true;
  if (ran < min_granularity_) return false;
  return core.current->vruntime - core.waiting.front()->vruntime > ideal;
}

SchedEntity* Scheduler::pick(std::uint32_t core_index, Nanos now) {
  Core& core = cores_[core_index];
  if (core.current != nullptr) {
    charge_current(core, now);
    insert_waiting(core, core.current);
    core.current = nullptr;
  }
  if (core.waiting.empty()) return nullptr;
  core.current = core.waiting.front();
  core.waiting.erase(core.waiting.begin());
  core.current->ran_since_pick = 0;
  core.updated = now;
  return core.current;
}

// ---- Placement of a waking thread --------------------------------------------------------------

CoreSet Scheduler::socket_mask(std::uint32_t socket) const {
  return first_cores(per_socket_) << (socket * per_socket_);
}

std::uint32_t Scheduler::place(const SchedEntity& entity) const {
  if (entity.is_new) return place_new(entity);
  const std::uint32_t last = entity.core;
  if (cores_[last].runnable == 0) return last;
  CoreSet near = entity.allowed & socket_mask(socket_of(last));
  for (; near != 0; near &= near - 1) {
    const auto core = lowest_core(near);
    if (cores_[core].runnable == 0) return core;
  }
  return last;
}

// Chooses a new thread's core: in the socket with the lowest average load the least loaded allowed core;
// among equals the core of the parent thread.
std::uint32_t Scheduler::place_new(const SchedEntity& entity) const {
  std::optional<std::uint32_t> best;
  double best_average = 0;
  for (std::uint32_t i = 0; i < sockets_; ++i) {
    const std::uint32_t socket = (socket_of(entity.core) + i) % sockets_;
    CoreSet candidates = entity.allowed & socket_mask(socket);
    if (candidates == 0) continue;
    const double average = group_of(socket_mask(socket)).average();
    if (best && average >= best_average) continue;
    best_average = average;
    best = lowest_core(candidates);
    for (; candidates != 0; candidates &= candidates - 1) {
      const auto core = lowest_core(candidates);
      const double load = cores_[core].load, least = cores_[*best].load;
      if (load < least || (load == least && core == entity.core)) best = core;
    }
  }
  LOCH_CHECK(best.has_value(), "a thread may run on none of the node's {} cores", cores_.size());
  return *best;
}

}  // namespace loch::fabric::sim
