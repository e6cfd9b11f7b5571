// Draws small changes of a scenario.
#include "app/fuzz/neighbours.h"

#include <algorithm>
#include <array>

#include "app/fuzz/draw.h"
#include "app/fuzz/failures.h"
#include "app/fuzz/reductions.h"

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using fabric::sim::SimFaults;
using Kind = ScheduledFault::Kind;

void change_option(FuzzScenario& s, Rng& rng) {
  std::vector<kv::OptionSpec> specs = s.plan.module->options();
  // Keeps only options that were drawn and can be drawn again; options fixed on the command line are not
  // changed.
  std::erase_if(specs, [&](const kv::OptionSpec& spec) {
    const bool is_own = spec.role == kv::OptionRole::none || spec.role == kv::OptionRole::search_depth;
    return spec.fuzz_values.empty() || !is_own || !s.knobs.contains(spec.key);
  });
  if (!specs.empty() && rng.chance(0.5)) {
    const kv::OptionSpec& spec = pick(rng, specs);
    const std::string& value = pick(rng, spec.fuzz_values);
    if (s.plan.options.set(spec.key, value)) s.knobs[spec.key] = value;
    if (spec.role == kv::OptionRole::search_depth) s.plan.load.may_be_full = true;
    return;
  }
  const std::vector<std::string> knobs = droppable_knobs(s);
  if (knobs.empty()) return;
  if (auto without = without_knob(s, pick(rng, knobs))) s = std::move(*without);
}

void change_instant(FuzzScenario& s, Rng& rng) {
  std::vector<ScheduledFault>& all = s.sim.faults.schedule;
  if (all.empty()) return;
  ScheduledFault& one = all[rng.below(all.size())];
  // Moves the failure by at most 2 us, 50 us or 1 ms. The new time is at most 2 ms or the failure's previous
  // time, whichever is later, so that the load still lasts beyond the failure.
  const Nanos latest = std::max<Nanos>(one.at, 2'000'000);
  const auto reach = static_cast<std::uint64_t>(pick<Nanos>(rng, {2'000, 50'000, 1'000'000}));
  one.at = std::clamp<Nanos>(
      one.at + static_cast<Nanos>(rng.below(2 * reach + 1)) - static_cast<Nanos>(reach), 1'000, latest);
  s.sim.faults.heal_at = std::max(s.sim.faults.heal_at, one.at + one.span);
}

void add_failure(FuzzScenario& s, Rng& rng) {
  constexpr std::size_t most = 6;
  if (!s.failures.has_schedule || !s.failures.retries || s.sim.faults.schedule.size() >= most) return;
  ScheduledFault fault;
  fault.kind =
      pick<Kind>(rng, {Kind::kill, Kind::crash, Kind::cut, Kind::pause, Kind::nic_stall, Kind::no_buffers});
  fault.node = static_cast<fabric::NodeId>(rng.below(s.plan.deploy.nodes));
  fault.at = static_cast<Nanos>(between(rng, 50'000, 2'000'000));
  if (fault.kind == Kind::kill)
    fault.worker = static_cast<std::uint16_t>(rng.below(s.plan.deploy.client_workers));
  else
    fault.span = pick<Nanos>(rng, {50'000, 300'000, 1'000'000});
  s.sim.faults.schedule.push_back(fault);
  s.failures.repair_after.push_back(pick<Nanos>(rng, {20'000, 300'000, 2'000'000}));
  if (!can_fail(s, s.sim.faults.schedule.size() - 1)) {
    s.sim.faults.schedule.pop_back();
    s.failures.repair_after.pop_back();
    return;
  }
  s.sim.faults.heal_at = std::max(s.sim.faults.heal_at, fault.at + fault.span);
}

void remove_failure(FuzzScenario& s, Rng& rng) {
  const std::size_t count = s.sim.faults.schedule.size();
  if (count > 1) s = without_failure(std::move(s), rng.below(count));
}

// Doubles or halves the rate or duration of one kind of simulated fault.
void change_weakness(FuzzScenario& s, Rng& rng) {
  constexpr std::array<double SimFaults::*, 8> shares = {
      &SimFaults::torn_read, &SimFaults::torn_write, &SimFaults::late_write, &SimFaults::overtaking_write,
      &SimFaults::uc_loss,   &SimFaults::ud_loss,    &SimFaults::slow_dma,   &SimFaults::interrupted};
  constexpr std::array<Nanos SimFaults::*, 3> spans = {&SimFaults::jitter, &SimFaults::lag,
                                                       &SimFaults::slow_dma_span};
  const bool is_more = rng.chance(0.5);
  const std::size_t which = rng.below(shares.size() + spans.size());
  if (which < shares.size()) {
    double& share = s.sim.faults.*shares[which];
    share = is_more ? std::min(0.5, 2 * share) : share / 2;
  } else {
    Nanos& span = s.sim.faults.*spans[which - shares.size()];
    span = is_more ? std::min<Nanos>(2'000'000, 2 * span) : span / 2;
  }
}

}  // namespace

FuzzScenario neighbour_of(FuzzScenario s, Rng& rng) {
  const std::uint64_t changes = between(rng, 1, 3);
  for (std::uint64_t i = 0; i < changes; ++i) {
    switch (rng.below(7)) {
      case 0:
        change_option(s, rng);
        break;
      case 1:
        change_instant(s, rng);
        break;
      case 2:
        add_failure(s, rng);
        break;
      case 3:
        remove_failure(s, rng);
        break;
      case 4:
        change_weakness(s, rng);
        break;
      case 5:
        s.plan.load.seed = rng();
        break;
      default:
        s.sim.seed = rng();
    }
  }
  plan_repairs(s);
  return s;
}

}  // namespace loch::fuzz
