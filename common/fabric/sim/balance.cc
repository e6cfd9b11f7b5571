// Balancing between the cores of a socket and between the sockets of a node, by the rules of
// load_balance() and find_busiest_group() of Linux 3.13.
#include <algorithm>

#include "common/base/check.h"
#include "common/fabric/sim/scheduler.h"

namespace loch::fabric::sim {

Scheduler::Group Scheduler::group_of(CoreSet cores) const {
  Group group;
  group.cores = cores;
  for (CoreSet left = cores; left != 0; left &= left - 1) {
    const Core& core = cores_[lowest_core(left)];
    group.load += core.load;
    group.runnable += core.runnable;
    group.load_changed = std::max(group.load_changed, core.load_changed);
    ++group.capacity;
  }
  return group;
}

void Scheduler::woke_from_idle(std::uint32_t core_index, Nanos now) {
  Core& core = cores_[core_index];
  if (core.idle_since < 0) return;
  const Nanos idle = now - core.idle_since;
  const Nanos most = 2 * migration_cost_;
  core.average_idle = idle > most ? most : core.average_idle + (idle - core.average_idle) / 8;
  core.idle_since = -1;
}

const std::vector<Scheduler::Moved>& Scheduler::balance_newly_idle(std::uint32_t core, Nanos now) {
  moved_.clear();
  if (contended_ == 0 || cores_[core].average_idle < migration_cost_) return moved_;
  for (unsigned level = 0; level < balance_levels && moved_.empty(); ++level) {
    balance(core, level, Idleness::newly_idle, now);
  }
  return moved_;
}

const std::vector<Scheduler::Moved>& Scheduler::balance_if_due(std::uint32_t core_index, Nanos now) {
  moved_.clear();
  Core& core = cores_[core_index];
  for (unsigned level = 0; level < balance_levels; ++level) {
    const Idleness idleness = core.runnable == 0 ? Idleness::idle : Idleness::busy;
    Balance& state = core.balance[level];
    const double factor = idleness == Idleness::busy ? busy_factor_ : 1;
    if (static_cast<double>(now - state.last) < static_cast<double>(state.interval) * factor) continue;
    state.last = now;
    if (balances_for_group(core_index, level)) balance(core_index, level, idleness, now);
  }
  return moved_;
}

// Whether this core may pull threads for its group at this level. Within a socket (level 0) every core does
// so for itself. Between sockets one core does so for its socket: the first idle core, or core 0 of the
// socket if none is idle.
bool Scheduler::balances_for_group(std::uint32_t core, unsigned level) const {
  if (level == 0) return true;
  const std::uint32_t first = socket_of(core) * per_socket_;
  for (std::uint32_t i = first; i < first + per_socket_; ++i) {
    if (cores_[i].runnable == 0) return i == core;
  }
  return core == first;
}

void Scheduler::balance(std::uint32_t core, unsigned level, Idleness idleness, Nanos now) {
  Balance& state = cores_[core].balance[level];
  const auto rest_longer = [&] { state.interval = std::min(state.interval * 2, balance_most_); };
  auto imbalance = find_imbalance(core, level, idleness, now);
  if (!imbalance) {
    state.failures = 0;
    rest_longer();
    return;
  }
  const bool takes_hot = state.failures > failures_before_hot;
  std::optional<std::uint32_t> from;
  Pull result = Pull::all_pinned;
  while (result == Pull::all_pinned) {
    from = busiest_core(imbalance->busiest);
    if (!from) break;
    result = pull_from(*from, core, imbalance->load, takes_hot, now);
    imbalance->busiest &= ~one_core(*from);
  }
  if (result == Pull::moved) {
    state.failures = 0;
    state.interval = balance_least_;
  } else if (result == Pull::all_pinned) {
    state.failures = 0;
    rest_longer();
  } else if (idleness != Idleness::newly_idle && ++state.failures > failures_before_active) {
    if (pull_running(*from, core, now)) state.failures = failures_before_hot + 1;
    rest_longer();
  }
}

std::optional<Scheduler::Imbalance> Scheduler::find_imbalance(std::uint32_t core, unsigned level,
                                                              Idleness idleness, Nanos now) const {
  const std::uint32_t socket = socket_of(core);
  const std::uint32_t groups = level == 0 ? per_socket_ : sockets_;
  const auto mask = [&](std::uint32_t i) {
    return level == 0 ? one_core(socket * per_socket_ + i) : socket_mask(i);
  };
  Group local, busiest, total;
  for (std::uint32_t i = 0; i < groups; ++i) {
    const Group group = group_of(mask(i));
    total.load += group.load;
    total.capacity += group.capacity;
    if ((group.cores & one_core(core)) != 0) {
      local = group;
    } else if (group.runnable > group.capacity &&
               (busiest.capacity == 0 || group.average() > busiest.average())) {
      busiest = group;
    }
  }
  if (busiest.capacity == 0) return std::nullopt;
  const double mean = total.average();
  const bool is_forced = idleness == Idleness::newly_idle && local.runnable < local.capacity;
  if (!is_forced) {
    if (local.average() >= busiest.average() || local.average() >= mean) return std::nullopt;
    if (idleness != Idleness::idle && 100 * busiest.average() <= imbalance_percent_ * local.average()) {
      return std::nullopt;
    }
  }
  const double above_capacity = 1024.0 * (busiest.runnable - busiest.capacity) / busiest.capacity;
  const double most = std::min(busiest.average() - mean, above_capacity);
  double load = std::min(most * busiest.capacity, (mean - local.average()) * local.capacity);
  load = std::max(load, 0.0);
  const bool is_settled = now - std::max(busiest.load_changed, local.load_changed) >= settling_time_;
  if (load < busiest.load_per_thread()) load = std::max(load, small_imbalance(busiest, local, is_settled));
  return Imbalance{busiest.cores, load};
}

// Load to move although the imbalance is smaller than the load of one thread: one thread's load if moving it
// improves the balance, else 0 (fix_small_imbalance of Linux).
double Scheduler::small_imbalance(const Group& busiest, const Group& local, bool is_settled) {
  const double one = busiest.load_per_thread();
  const double own = local.load_per_thread();
  const double spread = one / busiest.capacity;
  const double threads = local.runnable > 0 && one > own ? 1 : 2;
  const double gain = busiest.average() + spread - (local.average() + spread * threads);
  constexpr double rounding = 1e-6;
  if (gain > rounding || (is_settled && gain > -rounding)) return one;
  const double now =
      busiest.capacity * std::min(one, busiest.average()) + local.capacity * std::min(own, local.average());
  double after =
      busiest.average() > spread ? busiest.capacity * std::min(one, busiest.average() - spread) : 0;
  const double gained = std::min(busiest.average() * busiest.capacity, one) / local.capacity;
  after += local.capacity * std::min(own, local.average() + gained);
  return after > now ? one : 0;
}

std::optional<std::uint32_t> Scheduler::busiest_core(CoreSet among) const {
  std::optional<std::uint32_t> busiest;
  for (; among != 0; among &= among - 1) {
    const auto core = lowest_core(among);
    if (cores_[core].runnable < 2) continue;
    if (!busiest || cores_[core].load > cores_[*busiest].load) busiest = core;
  }
  return busiest;
}

// Moves waiting threads from core `from` to core `to` until their loads sum to `load`. The sum may exceed
// `load` by at most half of the last thread's load.
Scheduler::Pull Scheduler::pull_from(std::uint32_t from, std::uint32_t to, double load, bool takes_hot,
                                     Nanos now) {
  Core& source = cores_[from];
  charge_current(source, now);
  bool is_pinned = source.current == nullptr || (source.current->allowed & one_core(to)) == 0;
  bool has_moved = false;
  std::uint32_t looked_at = 0;
  for (std::size_t i = 0; i < source.waiting.size() && looked_at < max_pull_ && load > 0;) {
    SchedEntity* const entity = source.waiting[i];
    ++looked_at;
    const bool may_go = (entity->allowed & one_core(to)) != 0;
    if (may_go) is_pinned = false;
    const bool is_hot = !takes_hot && now - entity->last_ran < migration_cost_;
    if (!may_go || is_hot || entity->weight / 2.0 > load) {
      ++i;
      continue;
    }
    migrate(entity, to, now);
    moved_.push_back({entity, from, false});
    load -= entity->weight;
    has_moved = true;
  }
  if (has_moved) return Pull::moved;
  return is_pinned ? Pull::all_pinned : Pull::failed;
}

bool Scheduler::pull_running(std::uint32_t from, std::uint32_t to, Nanos now) {
  SchedEntity* const running = cores_[from].current;
  if (running == nullptr || (running->allowed & one_core(to)) == 0) return false;
  charge_current(cores_[from], now);
  migrate(running, to, now);
  moved_.push_back({running, from, true});
  ++counters_.active_balances;
  return true;
}

void Scheduler::migrate(SchedEntity* entity, std::uint32_t to, Nanos now) {
  Core& source = cores_[entity->core];
  Core& target = cores_[to];
  charge_current(target, now);
  const Nanos ahead = entity->vruntime - source.min_vruntime;
  detach(source, entity, now);
  entity->vruntime = target.min_vruntime + ahead;
  entity->core = to;
  attach(target, entity, now);
  ++counters_.migrations;
}

}  // namespace loch::fabric::sim
