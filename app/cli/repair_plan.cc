// Plans the repairs for a schedule of failures: a repair of what a killed client left half-done, and a
// declaration that a node is lost after it lost its memory.
#include "app/cli/repair_plan.h"

#include <algorithm>
#include <set>

namespace loch::cli {
namespace {

using fabric::sim::ScheduledFault;
using Kind = ScheduledFault::Kind;
using workloads::FailurePlan;

class Planner {
 public:
  Planner(const kv::Module& module, const kv::Options& options, const kv::DeployConfig& deploy, Nanos delay,
          FailurePlan& plan)
      : module_(module), options_(options), d_(deploy), delay_(delay), plan_(plan) {}

  void add(const ScheduledFault& fault) {
    plan_.over = std::max(plan_.over, fault.at + fault.span);
    if (fault.kind == Kind::kill)
      after_kill(fault);
    else if (fault.kind == Kind::crash)
      after_crash(fault);
    else if (promised(kv::Loss::link_down) == kv::Promise::unavailable)
      plan_.excuses.push_back({fault.node, std::nullopt});
  }

 private:
  [[nodiscard]] kv::Promise promised(kv::Loss loss) const { return module_.promise(loss, options_); }

  void after_kill(const ScheduledFault& fault) {
    const std::uint32_t clients = d_.drives(fault.node) ? d_.client_workers : 0;
    if (fault.worker < clients) {
      const kv::ClientId dead{fault.node, fault.worker};
      plan_.doomed.push_back(dead);
      act(promised(kv::Loss::client_killed), fault, std::nullopt, {dead});
    } else {
      act(promised(kv::Loss::server_killed), fault, fault.worker - clients, {});
    }
  }

  void after_crash(const ScheduledFault& fault) {
    plan_.crashed.push_back(fault.node);
    for (std::uint32_t i = 0; d_.drives(fault.node) && i < d_.client_workers; ++i)
      plan_.doomed.push_back({fault.node, static_cast<std::uint16_t>(i)});
    act(promised(kv::Loss::memory_lost), fault, std::nullopt, {});
  }

  void act(kv::Promise promise, const ScheduledFault& fault, std::optional<std::uint32_t> server,
           std::vector<kv::ClientId> dead) {
    switch (promise) {
      case kv::Promise::serves:
        break;
      case kv::Promise::after_scrub:
        plan_.repairs.push_back({.at = fault.at + delay_, .dead = std::move(dead), .lost = {}});
        break;
      case kv::Promise::after_declared:
        plan_.repairs.push_back({.at = fault.at + delay_, .dead = {}, .lost = {fault.node}});
        break;
      case kv::Promise::after_return:
        if (fault.span > 0)
          plan_.repairs.push_back({.at = fault.at + fault.span + delay_, .dead = {}, .lost = {fault.node}});
        else
          plan_.excuses.push_back({fault.node, server});
        break;
      case kv::Promise::unavailable:
        plan_.excuses.push_back({fault.node, server});
        break;
    }
  }

  const kv::Module& module_;
  const kv::Options& options_;
  const kv::DeployConfig& d_;
  Nanos delay_;
  FailurePlan& plan_;
};

// Merges repairs for several clients that are on the same node and die at the same time into one repair.
void join_repairs(FailurePlan& plan) {
  std::vector<FailurePlan::Repair> joined;
  for (FailurePlan::Repair& repair : plan.repairs) {
    const bool is_same =
        !joined.empty() && joined.back().at == repair.at && joined.back().lost.empty() && repair.lost.empty();
    if (is_same)
      joined.back().dead.insert(joined.back().dead.end(), repair.dead.begin(), repair.dead.end());
    else
      joined.push_back(std::move(repair));
  }
  plan.repairs = std::move(joined);
}

}  // namespace

void plan_repair(const ScheduledFault& fault, const kv::Module& module, const kv::Options& options,
                 const kv::DeployConfig& deploy, Nanos delay, FailurePlan& plan) {
  Planner(module, options, deploy, delay, plan).add(fault);
}

void order_repairs(FailurePlan& plan) {
  std::ranges::sort(plan.repairs, {}, &FailurePlan::Repair::at);
  for (const FailurePlan::Repair& repair : plan.repairs) plan.over = std::max(plan.over, repair.at);
}

Result<FailurePlan> plan_failures(const fabric::sim::SimFaults& faults, const kv::Module& module,
                                  const kv::Options& options, const kv::DeployConfig& deploy, Nanos delay) {
  FailurePlan plan;
  std::set<fabric::NodeId> touched;
  for (const ScheduledFault& fault : faults.schedule) touched.insert(fault.node);
  std::optional<fabric::NodeId> keeper;
  for (std::uint32_t node = deploy.server_nodes; node < deploy.nodes; ++node) {
    if (!touched.contains(static_cast<fabric::NodeId>(node))) keeper = static_cast<fabric::NodeId>(node);
  }
  if (!keeper) {
    return fail(ErrorCode::invalid_argument,
                "--repair-after: the schedule of failures touches every node; one must be left to repair");
  }
  plan.keeper = {*keeper, static_cast<std::uint16_t>(deploy.client_workers - 1)};
  for (const ScheduledFault& fault : faults.schedule) {
    plan_repair(fault, module, options, deploy, delay, plan);
    plan.strikes.push_back({fault.at, std::string(fabric::sim::name(fault.kind)), fault.node});
    if (fault.kind != Kind::crash || fault.span == 0) continue;
    plan.strikes.push_back({fault.at + fault.span, "restart", fault.node});
    if (module.promise(kv::Loss::memory_lost, options) == kv::Promise::after_declared)
      plan.repairs.push_back({.at = fault.at + fault.span + delay, .dead = {}, .lost = {fault.node}});
  }
  order_repairs(plan);
  join_repairs(plan);
  return plan;
}

}  // namespace loch::cli
