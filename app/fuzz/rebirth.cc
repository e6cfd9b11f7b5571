// Draws a node that loses its memory and restarts within microseconds under load, while its clients still
// retry. NICs give up early; links to the node are down around its crash, so that some requests are executed
// without a reply; and the node's repair comes early or late. Failures drawn independently lie milliseconds
// apart, by which time everything under way has ended.
#include "app/fuzz/rebirth.h"

#include <algorithm>

#include "app/fuzz/draw.h"

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using Kind = ScheduledFault::Kind;

constexpr Nanos us = 1'000;
constexpr double share = 0.2;  // share of the suitable scenarios in which a node crashes and soon restarts

Nanos pick_span(Rng& rng, const std::vector<Nanos>& from) { return pick(rng, from); }

class RebirthDrawer {
 public:
  RebirthDrawer(Rng& rng, FuzzScenario& s) : rng_(rng), s_(s), d_(s.plan.deploy) {}

  void draw() {
    s_.failures = {};
    s_.sim.faults.schedule.clear();
    s_.failures.has_schedule = true;
    const auto keeper = static_cast<fabric::NodeId>(between(rng_, d_.server_nodes, d_.nodes - 1));
    s_.failures.keeper = {keeper, static_cast<std::uint16_t>(rng_.below(d_.client_workers))};
    draw_death(draw_victim(keeper));
    draw_retries();
    draw_load();
  }

 private:
  struct Strike {
    ScheduledFault fault;
    Nanos repair_after = 0;
  };

  // Chooses the node to crash: mostly one that serves, and never `keeper`, whose client makes the repairs.
  fabric::NodeId draw_victim(fabric::NodeId keeper) {
    std::vector<fabric::NodeId> serving, all;
    for (std::uint32_t i = 0; i < d_.nodes; ++i) {
      const auto node = static_cast<fabric::NodeId>(i);
      if (node == keeper) continue;
      all.push_back(node);
      if (d_.serves(node)) serving.push_back(node);
    }
    const bool is_server = rng_.chance(0.7) && !serving.empty();
    return pick(rng_, is_server ? serving : all);
  }

  void draw_death(fabric::NodeId victim) {
    ScheduledFault death{.kind = Kind::crash, .node = victim};
    death.at = static_cast<Nanos>(between(rng_, 30'000, 600'000));
    death.span = pick_span(rng_, {10 * us, 50 * us, 200 * us});
    std::vector<Strike> strikes = {{death, pick_span(rng_, {10 * us, 100 * us, 500 * us, 1'500 * us})}};
    const std::uint64_t links = rng_.below(3);
    for (std::uint64_t i = 0; i < links; ++i) strikes.push_back({draw_link(death), 0});
    std::ranges::sort(strikes, {}, [](const Strike& each) { return each.fault.at; });
    for (const Strike& each : strikes) {
      s_.sim.faults.schedule.push_back(each.fault);
      s_.failures.repair_after.push_back(each.repair_after);
      over_ = std::max(over_, each.fault.at + each.fault.span + each.repair_after);
    }
  }

  // A link failure from a little before the crash until after the restart: either messages between the
  // crashing node and another node are lost in one direction, or the other node's link is down.
  ScheduledFault draw_link(const ScheduledFault& death) {
    const auto nth = static_cast<fabric::NodeId>(rng_.below(d_.nodes - 1));
    const auto other = static_cast<fabric::NodeId>(nth + (nth >= death.node ? 1 : 0));
    ScheduledFault link{.kind = rng_.chance(0.8) ? Kind::one_way : Kind::cut};
    const bool hears_nothing = rng_.chance(0.7);
    link.node = hears_nothing && link.kind == Kind::one_way ? death.node : other;
    if (link.kind == Kind::one_way) link.peer = hears_nothing ? other : death.node;
    link.at = death.at - std::min(death.at, static_cast<Nanos>(rng_.below(80'000)));
    link.span = death.at - link.at + death.span + pick_span(rng_, {1 * us, 100 * us, 400 * us});
    return link;
  }

  void draw_retries() {
    s_.failures.retries = {.timeout = pick_span(rng_, {5 * us, 20 * us, 50 * us}),
                           .count = pick<std::uint32_t>(rng_, {0, 0, 1}),
                           .rnr_timer = 10 * us,
                           .rnr_count = 1};
  }

  void draw_load() {
    workloads::LoadConfig& load = s_.plan.load;
    load.operations = 0;
    load.duration = over_ + pick_span(rng_, {300 * us, 1'000 * us, 4'000 * us});
    load.think = pick_span(rng_, {0, 5 * us, 20 * us});
    s_.sim.faults.heal_at = std::max(s_.sim.faults.heal_at, over_);
  }

  Rng& rng_;
  FuzzScenario& s_;
  const kv::DeployConfig& d_;
  Nanos over_ = 0;
};

}  // namespace

bool draw_rebirth(Rng& rng, FuzzScenario& s) {
  // Scenarios with stragglers (very slow clients) are excluded, because stragglers and a quick restart need
  // different expiry periods.
  if (s.sim.faults.stragglers > 0 || !rng.chance(share)) return false;
  RebirthDrawer(rng, s).draw();
  return true;
}

}  // namespace loch::fuzz
