// Failures of nodes and workers: crashes and restarts, pauses, stalls, cuts, kills.
#include <algorithm>
#include <cmath>

#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {

// The event at which a failure begins, or at which it ends (is_end).
struct FailureEvent : Event {
  Simulation* sim = nullptr;
  ScheduledFault fault;
  // If this failure was drawn at random: the rate of such failures, per node and second, at which the next
  // one is drawn when this one begins. 0: a scheduled failure, which happens once.
  double rate = 0;
  bool is_end = false;
};

using Kind = ScheduledFault::Kind;

void plan(Simulation* sim, const ScheduledFault& fault, double rate, bool is_end,
          std::vector<std::shared_ptr<Event>>* all);

void pause_workers(SimNode& node, bool on) {
  for (SimWorker* worker : node.workers) {
    if (worker == nullptr || worker->is_dead()) continue;
    if (on)
      node.cpu->pause(worker->thread());
    else
      node.cpu->resume(worker->thread());
  }
}

void kill_one(Simulation& sim, SimNode& node, std::uint16_t index) {
  if (index < node.workers.size() && node.workers[index] != nullptr) node.workers[index]->kill();
  if (sim.live_clients == 0 && !sim.stopping) sim.begin_stopping();
}

void strike(Simulation& sim, const ScheduledFault& fault) {
  SimNode& node = *sim.nodes[fault.node];
  if (!node.is_up) return;
  const Nanos end = fault.span > 0 ? sim.now() + fault.span : forever;
  switch (fault.kind) {
    case Kind::crash:
      sim.crash(&node);
      break;
    case Kind::pause:
      pause_workers(node, true);
      break;
    case Kind::nic_stall:
      node.stalled_until = std::max(node.stalled_until, end);
      break;
    case Kind::cut:
      node.cut_until = std::max(node.cut_until, end);
      break;
    case Kind::kill:
      kill_one(sim, node, fault.worker);
      break;
    case Kind::one_way:
      node.mute_until.resize(sim.nodes.size());
      node.mute_until[fault.peer] = std::max(node.mute_until[fault.peer], end);
      break;
    case Kind::lossy:
      node.lossy_until = end;
      node.loss = fault.chance;
      break;
    case Kind::no_buffers:
      node.no_buffers_until = std::max(node.no_buffers_until, end);
      break;
    case Kind::clock_step:
      node.skew = fault.step;
      break;
  }
}

void finish(Simulation& sim, const ScheduledFault& fault) {
  SimNode& node = *sim.nodes[fault.node];
  if (fault.kind == Kind::pause && node.is_up) pause_workers(node, false);
  if (fault.kind == Kind::crash && !node.is_up) {
    node.is_up = true;  // the node has fresh memory, fresh rkeys and no workers
    ++node.incarnation;
    for (auto& region : node.regions) region->rkey = sim.make_rkey(node, region->id());
    // The NIC of the restarted node has lost the requests that the node's former workers had posted.
    for (SimWorker* worker : node.workers) {
      if (worker != nullptr) worker->fence();
    }
    if (sim.tell_restart && !sim.stopping) sim.tell_restart(node.id);
  }
}

// Draws the next failure of a kind: its node (and worker), instant and duration.
void draw(Simulation& sim, Kind kind, double rate) {
  ScheduledFault fault;
  fault.kind = kind;
  fault.node = static_cast<NodeId>(sim.fault_rng.below(sim.nodes.size()));
  const auto workers = sim.nodes[fault.node]->workers.size();
  fault.worker = workers > 0 ? static_cast<std::uint16_t>(sim.fault_rng.below(workers)) : 0;
  const double mean_ns = 1e9 / (rate * static_cast<double>(sim.nodes.size()));
  fault.at = sim.now() + 1 + static_cast<Nanos>(sim.fault_rng.exponential(mean_ns));
  fault.span = sim.up_to(sim.config.faults.outage_span);
  plan(&sim, fault, rate, false, &sim.failures);
}

void on_failure(Event* event) {
  auto* failure = static_cast<FailureEvent*>(event);
  Simulation& sim = *failure->sim;
  sim.note(Effect::failed, failure->fault.node, sim.now(), static_cast<std::uint64_t>(failure->fault.kind));
  if (failure->is_end) return finish(sim, failure->fault);
  const bool is_drawn = failure->rate > 0;
  const bool is_deadly = failure->fault.kind == Kind::kill || failure->fault.kind == Kind::crash;
  if (is_drawn && (!sim.may_fault() || sim.stopping)) return;
  if (is_drawn && is_deadly && sim.kills_done >= sim.config.faults.kills) return;
  if (is_deadly) ++sim.kills_done;
  strike(sim, failure->fault);
  const bool has_end = failure->fault.kind == Kind::pause || failure->fault.kind == Kind::crash;
  if (has_end && failure->fault.span > 0) plan(&sim, failure->fault, 0, true, &sim.failures);
  if (is_drawn) draw(sim, failure->fault.kind, failure->rate);
}

void plan(Simulation* sim, const ScheduledFault& fault, double rate, bool is_end,
          std::vector<std::shared_ptr<Event>>* all) {
  auto failure = std::make_shared<FailureEvent>();
  failure->sim = sim;
  failure->fault = fault;
  failure->rate = rate;
  failure->is_end = is_end;
  failure->fire = &on_failure;
  sim->queue.push(failure.get(), std::max(sim->now(), is_end ? sim->now() + fault.span : fault.at));
  all->push_back(std::move(failure));
}

}  // namespace

void Simulation::schedule_faults() {
  for (const ScheduledFault& fault : config.faults.schedule) {
    if (fault.node < nodes.size()) plan(this, fault, 0, false, &failures);
  }
  const SimFaults& f = config.faults;
  const std::pair<Kind, double> rates[] = {{Kind::pause, f.pause_rate},
                                           {Kind::nic_stall, f.nic_stall_rate},
                                           {Kind::cut, f.cut_rate},
                                           {Kind::kill, f.kill_rate},
                                           {Kind::crash, f.crash_rate}};
  for (const auto& [kind, rate] : rates) {
    if (rate > 0) draw(*this, kind, rate);
  }
}

void Simulation::crash(SimNode* node) {
  node->is_up = false;
  node->was_lost = true;
  for (SimWorker* worker : node->workers) {
    if (worker == nullptr) continue;
    worker->kill();
    worker->forget_posted();
  }
  for (auto& region : node->regions) region->clear();
  if (live_clients == 0 && !stopping) begin_stopping();
}

void Simulation::begin_stopping() {
  stopping = true;
  for (auto& worker : workers) worker->tell_to_stop();
}

}  // namespace loch::fabric::sim
