// Draws failures: killed clients and servers, nodes that lose their memory and restart or not, links cut for
// longer than every time-out in one or both directions, bursts of losses, SENDs without a receive buffer,
// clock steps, and RC requests that fail because the NIC gives up early.
#include "app/fuzz/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "app/cli/repair_plan.h"
#include "app/fuzz/draw.h"

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using Kind = ScheduledFault::Kind;
using workloads::FailurePlan;

constexpr Nanos us = 1'000, ms = 1'000'000;

std::uint32_t workers_of(const kv::DeployConfig& d, fabric::NodeId node) {
  return std::max(1U, (d.drives(node) ? d.client_workers : 0) + (d.serves(node) ? d.server_workers : 0));
}

// Whether a fault can be added to the scenario's other faults: the client that makes the repairs must
// survive, at most one node may crash, and no worker may be killed twice.
bool is_possible(const ScheduledFault& fault, std::span<const ScheduledFault> others, const FuzzScenario& s) {
  const kv::DeployConfig& d = s.plan.deploy;
  const kv::ClientId& keeper = s.failures.keeper;
  if (fault.kind == Kind::kill) {
    if (fault.worker >= workers_of(d, fault.node) ||
        (fault.node == keeper.node && fault.worker == keeper.worker && d.drives(fault.node)))
      return false;
    return std::ranges::none_of(others, [&](const ScheduledFault& each) {
      return each.node == fault.node &&
             (each.kind == Kind::crash || (each.kind == Kind::kill && each.worker == fault.worker));
    });
  }
  if (fault.kind != Kind::crash) return true;
  if (fault.node == keeper.node) return false;
  return std::ranges::none_of(others, [&](const ScheduledFault& each) {
    return each.kind == Kind::crash || (each.kind == Kind::kill && each.node == fault.node);
  });
}

class FailureDrawer {
 public:
  FailureDrawer(Rng& rng, FuzzScenario& s) : rng_(rng), s_(s), d_(s.plan.deploy) {}

  void draw_retries() {
    FuzzRetries r;
    r.timeout = pick<Nanos>(rng_, {20 * us, 50 * us, 200 * us, 1 * ms, 5 * ms});
    r.count = pick<std::uint32_t>(rng_, {0, 0, 1, 3});
    r.rnr_timer = pick<Nanos>(rng_, {10 * us, 100 * us});
    r.rnr_count = pick<std::uint32_t>(rng_, {0, 1, 3});
    s_.failures.retries = r;
    s_.sim.faults.rc_loss = pick<double>(rng_, {0, 0.001, 0.005, 0.02});
    s_.sim.faults.rnr = pick<double>(rng_, {0, 0.005, 0.02});
  }

  // Draws links that lose a tenth to a third of all requests, and NICs that do not retransmit. Several
  // requests of one operation then fail, including those by which a client checks whether a failed request
  // was executed.
  void draw_storm() {
    s_.failures.retries = {
        .timeout = pick<Nanos>(rng_, {20 * us, 50 * us}), .count = 0, .rnr_timer = 10 * us, .rnr_count = 1};
    s_.sim.faults.rc_loss = pick<double>(rng_, {0.1, 0.2, 0.35});
  }

  // Kills the clients of one node one after another in the middle of their operations.
  void draw_kills() {
    const auto node = static_cast<fabric::NodeId>(between(rng_, d_.server_nodes, d_.nodes - 1));
    for (std::uint16_t worker = 0; worker < d_.client_workers; ++worker) {
      ScheduledFault fault;
      fault.kind = Kind::kill;
      fault.at = static_cast<Nanos>(between(rng_, 50'000, 1'000'000));
      fault.node = node;
      fault.worker = worker;
      if (is_possible(fault, s_.sim.faults.schedule, s_)) s_.sim.faults.schedule.push_back(fault);
    }
    std::ranges::sort(s_.sim.faults.schedule, {}, &ScheduledFault::at);
    s_.plan.load.think = 0;
  }

  void draw_schedule() {
    s_.failures.has_schedule = true;
    const auto node = static_cast<fabric::NodeId>(between(rng_, d_.server_nodes, d_.nodes - 1));
    s_.failures.keeper = {node, static_cast<std::uint16_t>(rng_.below(d_.client_workers))};
    const std::uint64_t count = between(rng_, 1, 4);
    for (std::uint64_t i = 0; i < count; ++i) draw_one();
    std::ranges::sort(s_.sim.faults.schedule, {}, &ScheduledFault::at);
  }

 private:
  void draw_one() {
    static const std::vector<Kind> kinds = {
        Kind::kill,    Kind::kill,    Kind::kill,  Kind::crash, Kind::crash,     Kind::cut,
        Kind::cut,     Kind::one_way, Kind::lossy, Kind::pause, Kind::nic_stall, Kind::no_buffers,
        Kind::one_way, Kind::lossy,   Kind::cut,   Kind::pause, Kind::clock_step};
    ScheduledFault fault;
    fault.kind = pick(rng_, kinds);
    fault.at = static_cast<Nanos>(between(rng_, 100'000, 2'000'000));
    fault.span = static_cast<Nanos>(pick<std::uint64_t>(rng_, {50'000, 300'000, 1'000'000, 5'000'000}));
    fault.node = static_cast<fabric::NodeId>(rng_.below(d_.nodes));
    const auto other = static_cast<fabric::NodeId>(rng_.below(d_.nodes - 1));
    fault.peer = static_cast<fabric::NodeId>(other + (other >= fault.node ? 1 : 0));
    fault.chance = pick<double>(rng_, {0.2, 0.5, 0.9});
    fault.worker = static_cast<std::uint16_t>(rng_.below(workers_of(d_, fault.node)));
    const double share = 2 * rng_.uniform() - 1;
    fault.step = static_cast<Nanos>(share * static_cast<double>(s_.sim.faults.clock_skew));
    const bool comes_back = rng_.chance(0.6);
    if (fault.kind == Kind::crash && !comes_back) fault.span = 0;
    if (fault.kind == Kind::kill) fault.span = 0;
    if (is_possible(fault, s_.sim.faults.schedule, s_)) s_.sim.faults.schedule.push_back(clean(fault));
  }

  // Resets those fields of the fault that a fault of its kind does not use.
  [[nodiscard]] static ScheduledFault clean(ScheduledFault fault) {
    if (fault.kind != Kind::one_way) fault.peer = 0;
    if (fault.kind != Kind::lossy) fault.chance = 0;
    if (fault.kind != Kind::kill) fault.worker = 0;
    if (fault.kind != Kind::clock_step) fault.step = 0;
    if (fault.kind == Kind::clock_step) fault.span = 0;
    return fault;
  }

  Rng& rng_;
  FuzzScenario& s_;
  const kv::DeployConfig& d_;
};

// In most scenarios, makes the load last until some time after the last failure. Clients may then pause
// between operations, so that the simulation of a long load stays short.
void fit_load(Rng& rng, FuzzScenario& s) {
  Nanos over = 500 * us;
  for (const ScheduledFault& fault : s.sim.faults.schedule) over = std::max(over, fault.at + fault.span);
  const Nanos after = static_cast<Nanos>(between(rng, 200'000, 1'500'000));
  const Nanos think = pick<Nanos>(rng, {0, 10 * us, 50 * us});
  s.sim.faults.heal_at = std::max(s.sim.faults.heal_at, over);
  workloads::LoadConfig& load = s.plan.load;
  if (load.operations > 0 && rng.chance(0.7)) {
    load.operations = 0;
    load.duration = over + after;
    load.think = over > 2 * ms ? std::max<Nanos>(think, 20 * us) : think;
  } else if (load.duration > 0) {
    load.duration = std::max(load.duration, over + after);
  }
}

}  // namespace

bool promises_something(const kv::Module& module) {
  const kv::Options defaults(module.options());
  constexpr std::array all = {kv::Loss::client_killed, kv::Loss::server_killed, kv::Loss::memory_lost,
                              kv::Loss::link_down};
  return std::ranges::any_of(
      all, [&](kv::Loss loss) { return module.promise(loss, defaults) != kv::Promise::unavailable; });
}

void draw_failures(Rng& rng, Rng& storms, FuzzTable table, double share, FuzzScenario& s) {
  const bool has_retries = rng.chance(0.35 * share), has_schedule = rng.chance(0.5 * share);
  if (has_retries) FailureDrawer(rng, s).draw_retries();
  // An overfull table has many MIGRATEs (moves of a key to another slot), which have the most steps that can
  // fail, so failures are drawn more often.
  const double stormy = table == FuzzTable::overfull ? 0.4 : 0.03;
  if (storms.chance(stormy)) FailureDrawer(storms, s).draw_storm();
  if (has_schedule) FailureDrawer(rng, s).draw_schedule();
  const bool has_kills = storms.chance(0.25) && promises_something(*s.plan.module);
  if (s.sim.faults.schedule.empty()) s.failures.has_schedule = false;
  // Sets the NIC's retries, mostly shorter than by default: with the default, a failing request blocks its
  // client for 33 ms.
  if (s.failures.has_schedule && !s.failures.retries)
    s.failures.retries = {.timeout = pick<Nanos>(rng, {50 * us, 500 * us, 4'190 * us}),
                          .count = pick<std::uint32_t>(rng, {1, 3, 7}),
                          .rnr_timer = 100 * us,
                          .rnr_count = 7};
  if (s.failures.has_schedule) fit_load(rng, s);
  if (has_kills && s.failures.has_schedule) FailureDrawer(storms, s).draw_kills();
}

bool can_fail(const FuzzScenario& s, std::size_t place) {
  const std::span<const ScheduledFault> all = s.sim.faults.schedule;
  return is_possible(all[place], all.first(place), s);
}

void draw_repairs(Rng& rng, FuzzScenario& s) {
  for (std::size_t i = 0; i < s.sim.faults.schedule.size(); ++i)
    s.failures.repair_after.push_back(
        static_cast<Nanos>(pick<std::uint64_t>(rng, {20'000, 300'000, 2'000'000})));
}

void plan_repairs(FuzzScenario& s) {
  std::optional<FailurePlan>& plan = s.plan.load.failures;
  plan.reset();
  if (s.failures.has_schedule) {
    plan.emplace().keeper = s.failures.keeper;
    const std::vector<ScheduledFault>& schedule = s.sim.faults.schedule;
    for (std::size_t i = 0; i < schedule.size(); ++i)
      cli::plan_repair(schedule[i], *s.plan.module, s.plan.options, s.plan.deploy,
                       s.failures.repair_after.at(i), *plan);
    cli::order_repairs(*plan);
  }
  // If the protocol promises no service after a link failure, keys of any node may stay out of service,
  // because a request whose messages are lost fails as on a broken link.
  const bool may_fail = s.failures.retries.has_value();
  if (!may_fail || s.plan.module->promise(kv::Loss::link_down, s.plan.options) != kv::Promise::unavailable)
    return;
  if (!plan) plan.emplace().keeper = {static_cast<fabric::NodeId>(s.plan.deploy.server_nodes), 0};
  for (std::uint32_t node = 0; node < s.plan.deploy.nodes; ++node)
    plan->excuses.push_back({static_cast<fabric::NodeId>(node), std::nullopt});
}

std::string describe_failures(const FuzzScenario& s) {
  std::string text;
  if (const auto& r = s.failures.retries) {
    text += fmt::format(", {} tries every {}, rnr {} every {}", r->count + 1, format_duration(r->timeout),
                        r->rnr_count + 1, format_duration(r->rnr_timer));
  }
  for (const ScheduledFault& fault : s.sim.faults.schedule) {
    text += fmt::format(", {} of n{}", fabric::sim::name(fault.kind), fault.node);
    if (fault.kind == Kind::kill) text += fmt::format(" worker {}", fault.worker);
    if (fault.kind == Kind::one_way) text += fmt::format(" to n{}", fault.peer);
    text += fmt::format(" at {}", format_duration(fault.at));
    if (fault.span > 0) text += fmt::format(" for {}", format_duration(fault.span));
  }
  if (!s.plan.load.failures) return text;
  for (const FailurePlan::Repair& repair : s.plan.load.failures->repairs) {
    for (const kv::ClientId& dead : repair.dead)
      text += fmt::format(", scrub of n{}.{}", dead.node, dead.worker);
    for (const fabric::NodeId node : repair.lost) text += fmt::format(", n{} declared lost", node);
    text += fmt::format(" at {}", format_duration(repair.at));
  }
  return text;
}

}  // namespace loch::fuzz
