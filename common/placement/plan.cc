// Plans the CPUs of workers: cores before hyper-threads, near the NIC before far from it.
#include "common/placement/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace loch::placement {
namespace {

class Planner {
 public:
  Planner(const Machine& machine, const Demand& demand) : machine_(machine), demand_(demand) {
    for (const Cpu& cpu : machine.cpus) {
      if (std::ranges::find(demand.allowed, cpu.number) == demand.allowed.end()) continue;
      free_.push_back(cpu);
      cores_[cpu.core].threads++;
    }
    if (!free_.empty()) lowest_core_ = free_.front().core;
    all_workers_ = std::accumulate(demand.workers.begin(), demand.workers.end(), std::uint64_t{0});
  }

  [[nodiscard]] bool is_enough() const { return all_workers_ <= free_.size(); }
  [[nodiscard]] std::size_t cpus() const { return free_.size(); }
  [[nodiscard]] std::uint64_t workers() const { return all_workers_; }

  NodePlan place(std::uint32_t node) {
    const std::uint32_t workers = demand_.workers[node];
    const std::uint32_t home = home_of(workers);
    const std::uint64_t budget = cores_for(workers);
    NodePlan out;
    std::uint64_t cores = 0;  // number of cores that this store node's workers have taken
    for (std::uint32_t i = 0; i < workers; ++i) {
      const auto best = std::ranges::min_element(
          free_, {}, [&](const Cpu& cpu) { return cost(cpu, node, home, cores < budget); });
      Core& core = cores_[best->core];
      if (core.owner == nobody) ++cores;
      if (core.owner == nobody) core.owner = node;
      out.workers.push_back(*best);
      free_.erase(best);
    }
    out.memory_numa_node = memory_of(out, home);
    return out;
  }

 private:
  static constexpr std::uint32_t nobody = ~0U;
  struct Core {
    std::uint32_t threads = 0;     // allowed hyper-threads of the core
    std::uint32_t owner = nobody;  // the first store node that has a worker on this core
  };
  // Costs are compared element by element; a worker takes the free CPU with the lowest cost.
  using Cost = std::tuple<int, std::uint64_t, std::uint32_t, bool, std::uint32_t, std::uint32_t>;

  [[nodiscard]] Cost cost(const Cpu& cpu, std::uint32_t node, std::uint32_t home, bool has_cores_left) const {
    const Core& core = cores_.at(cpu.core);
    const int sharing = core.owner == nobody ? (has_cores_left ? 0 : 2) : core.owner == node ? 1 : 3;
    return {sharing,       machine_.distance(home, cpu.numa_node),
            cpu.numa_node, cpu.core == lowest_core_,
            cpu.core,      cpu.number};
  }

  // The NUMA node near which the workers are placed: the NIC's NUMA node; if it is unknown, the first NUMA
  // node with a free core for each of the workers; if there is none, the NUMA node with the most free cores.
  [[nodiscard]] std::uint32_t home_of(std::uint32_t workers) const {
    if (demand_.nic_numa_node && machine_.has_numa_node(*demand_.nic_numa_node))
      return *demand_.nic_numa_node;
    std::map<std::uint32_t, std::map<std::uint32_t, bool>> cores_of;
    for (const Cpu& cpu : free_) {
      if (cores_.at(cpu.core).owner == nobody) cores_of[cpu.numa_node][cpu.core] = true;
    }
    std::uint32_t home = free_.empty() ? 0 : free_.front().numa_node;
    std::size_t most = 0;
    for (const auto& [numa_node, cores] : cores_of) {
      if (cores.size() >= workers) return numa_node;
      if (cores.size() > most) {
        home = numa_node;
        most = cores.size();
      }
    }
    return home;
  }

  // How many cores a store node gets: one for each worker if the machine has enough for all workers; else a
  // share in proportion to its workers, but at least enough to run them all on hyper-threads.
  [[nodiscard]] std::uint64_t cores_for(std::uint32_t workers) const {
    if (all_workers_ <= cores_.size()) return workers;
    std::uint32_t threads = 1;
    for (const auto& [number, core] : cores_) threads = std::max(threads, core.threads);
    const std::uint64_t share = cores_.size() * workers / all_workers_;
    return std::max<std::uint64_t>(share, (workers + threads - 1) / threads);
  }

  [[nodiscard]] std::uint32_t memory_of(const NodePlan& plan, std::uint32_t home) const {
    if (demand_.nic_numa_node && machine_.has_numa_node(*demand_.nic_numa_node)) return home;
    std::map<std::uint32_t, std::uint32_t> workers_of;
    for (const Cpu& cpu : plan.workers) ++workers_of[cpu.numa_node];
    const auto most = std::ranges::max_element(workers_of, {}, [](const auto& each) { return each.second; });
    return most == workers_of.end() ? home : most->first;
  }

  const Machine& machine_;
  const Demand& demand_;
  std::vector<Cpu> free_;  // allowed CPUs without a worker, ascending
  std::map<std::uint32_t, Core> cores_;
  std::uint32_t lowest_core_ = 0;
  std::uint64_t all_workers_ = 0;
};

}  // namespace

Result<std::vector<NodePlan>> plan(const Machine& machine, const Demand& demand) {
  Planner planner(machine, demand);
  if (!planner.is_enough()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} workers on this host, and {} CPU{} that the process may use",
                            planner.workers(), planner.cpus(), planner.cpus() == 1 ? "" : "s"));
  }
  std::vector<NodePlan> plans;
  for (std::uint32_t node = 0; node < demand.workers.size(); ++node) plans.push_back(planner.place(node));
  return plans;
}

}  // namespace loch::placement
