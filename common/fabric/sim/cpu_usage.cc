// Accounts for the time of a simulated node's cores: busy, in which idle state, and with how many CPU
// packages awake.
#include <algorithm>

#include "common/base/check.h"
#include "common/fabric/sim/cpu.h"

namespace loch::fabric::sim {

std::size_t NodeCpu::idle_state(Nanos idle) const {
  std::size_t state = idle_states;
  for (std::size_t i = 0; i < idle_states && idle >= residency_[i]; ++i) state = i;
  return state;
}

void NodeCpu::enter_idle(Core& core) {
  core.is_idle = true;
  --busy_cores_;
  core.since = queue_.now();
  scheduler_.went_idle(core.index, queue_.now());
  Package& package = packages_[scheduler_.socket_of(core.index)];
  if (++package.idle_cores == scheduler_.cores_per_socket()) {
    book_package(books_, package, false);
    package.since = queue_.now();
  }
}

// Ends the core's idle period; returns the ns that leaving its idle state takes.
Nanos NodeCpu::leave_idle(Core& core) {
  book_idle(books_, core);
  ++books_.wake_ups;
  core.is_idle = false;
  ++busy_cores_;
  Package& package = packages_[scheduler_.socket_of(core.index)];
  if (package.idle_cores-- == scheduler_.cores_per_socket()) {
    book_package(books_, package, true);
    package.since = queue_.now();
  }
  return exit_latency_[idle_state(queue_.now() - core.since)];
}

void NodeCpu::book_idle(CpuUsage& books, const Core& core) const {
  const std::size_t state = idle_state(queue_.now() - core.since);
  (state == idle_states ? books.idle_shallow_ns : books.idle_ns[state]) += counted(core.since);
}

// Adds to package_awake_ns how long a CPU package was awake in its current period, in which all its
// cores were idle (was_idle) or some were busy. A package sleeps after all its cores have been idle for
// package_sleep_us.
void NodeCpu::book_package(CpuUsage& books, const Package& package, bool was_idle) const {
  Nanos awake = counted(package.since);
  if (was_idle) {
    const Nanos asleep_from = package.since + static_cast<Nanos>(power_.package_sleep_us * 1e3);
    awake -= std::max<Nanos>(0, std::min(awake, queue_.now() - asleep_from));
  }
  books.package_awake_ns += awake;
}

CpuUsage NodeCpu::usage() const {
  CpuUsage usage = books_;
  usage.span = queue_.now() - books_since_;
  usage.cores = static_cast<std::uint32_t>(cores_.size());
  for (const Core& core : cores_) {
    if (core.running != nullptr) {
      const Nanos ran = counted(core.running->on_core_since_);
      usage.busy_ns += ran;
      usage.role_ns[static_cast<std::size_t>(core.running->role())] += ran;
    } else if (core.is_switching) {
      usage.busy_ns += counted(core.since);
      usage.switching_ns += counted(core.since);
    } else {
      book_idle(usage, core);
    }
  }
  for (const Package& package : packages_) {
    book_package(usage, package, package.idle_cores == scheduler_.cores_per_socket());
  }
  for (const auto& thread : threads_) {
    const bool was_there = thread->state_ != ThreadState::ended || thread->ended_at_ > books_since_;
    if (was_there) ++usage.role_threads[static_cast<std::size_t>(thread->role())];
  }
  usage.migrations = scheduler_.counters().migrations - migrations_before_;
  const auto background_ns =
      static_cast<double>(usage.role_ns[static_cast<std::size_t>(ThreadRole::background)]);
  usage.background_hashes = cpu_.background_hash_ns > 0 ? background_ns / cpu_.background_hash_ns : 0;
  return usage;
}

void NodeCpu::reset_usage() {
  books_ = CpuUsage{};
  books_since_ = queue_.now();
  migrations_before_ = scheduler_.counters().migrations;
  for (const auto& thread : threads_) thread->cpu_ns_ = 0;
}

}  // namespace loch::fabric::sim
