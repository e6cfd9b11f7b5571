// The Driver's part that deals with failures: planned repairs during the load, the repair after it (scrub),
// and the final sweep, which checks that every key is in service again.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "workloads/driver_client.h"

namespace loch::workloads {

namespace {

bool is_among(const std::vector<fabric::NodeId>& nodes, fabric::NodeId node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

// Whether a node that the protocol cannot do without has crashed and will not restart, so that no repair can
// complete.
bool is_maimed(const FailurePlan& plan) {
  return std::ranges::any_of(plan.excuses, [&](const FailurePlan::Excuse& excuse) {
    return !excuse.server && is_among(plan.crashed, excuse.node);
  });
}

}  // namespace

coro::Task<void> Driver::keep(ClientWorker* own) {
  constexpr std::uint32_t tries = 40;
  constexpr Nanos pause = 2'000'000;
  fabric::Worker& worker = *own->worker;
  // A planned repair that is still to be done. A repair that cannot complete yet is retried after the others:
  // the repair of what dead clients left half-done (scrub) reads the whole index, part of which may be on a
  // lost node that another repair declares lost.
  struct Waiting {
    const FailurePlan::Repair* step;
    Nanos due = 0, begun = -1;
    std::uint32_t tries = 0;
  };
  std::vector<Waiting> waiting;
  for (const FailurePlan::Repair& step : load_.failures->repairs) waiting.push_back({&step, step.at});
  while (!waiting.empty() && !worker.stopping()) {
    const auto next = std::ranges::min_element(waiting, {}, &Waiting::due);
    Waiting one = *next;
    waiting.erase(next);
    if (worker.now() < one.due) co_await worker.sleep_until(one.due);
    if (one.begun < 0) one.begun = worker.now();
    repaired_["repair_retries"] += one.tries > 0 ? 1 : 0;
    const bool is_complete = co_await repair(&worker, one.step, one.tries == 0);
    if (!is_complete && ++one.tries < tries && !worker.stopping()) {
      one.due = worker.now() + pause;
      waiting.push_back(one);
      continue;
    }
    for (const fabric::NodeId node : one.step->lost) log_loss(node, one.begun, worker.now());
    if (!is_complete && !worker.stopping() && !is_maimed(*load_.failures)) {
      stuck_.push_back(fmt::format("the {} begun at {} ns was not complete after {} tries",
                                   one.step->lost.empty() ? "scrub" : "declaration", one.step->at, tries));
    }
  }
}

coro::Task<bool> Driver::repair(fabric::Worker* worker, const FailurePlan::Repair* step, bool is_first) {
  bool is_complete = true;
  // Nodes that this try of the repair has fenced off. Only the first try fences: by a later one, a node may
  // have restarted and be a member again.
  std::vector<fabric::NodeId> fenced_nodes;
  const auto fence = [this, worker, is_first, &fenced_nodes](fabric::NodeId node) {
    if (!is_first || is_among(fenced_nodes, node)) return;
    fenced_nodes.push_back(node);
    note(*worker, "fence", node);
    const Result<> fenced = fabric_.fence(node);
    LOCH_CHECK(fenced.has_value(), "a fabric that fails by plan can fence");
  };
  if (!step->dead.empty()) {
    for (const kv::ClientId& dead : step->dead) fence(dead.node);
    const std::vector<kv::ClientId> dead = step->dead;
    if (is_first) note(*worker, "scrub", dead.front().node);
    const kv::Repair repaired = co_await store_.scrub(*worker, dead);
    is_complete = repaired.is_complete;
    if (is_complete) note(*worker, "scrub_end", dead.front().node);
    ++repaired_["scrubs"];
    for (const auto& [kind, count] : repaired.counts) repaired_[kind] += count;
  }
  if (!step->lost.empty()) {
    for (const fabric::NodeId node : step->lost) fence(node);
    const std::vector<fabric::NodeId> lost = step->lost;
    for (const fabric::NodeId node : lost) {
      if (is_first) note(*worker, "declare", node);
    }
    const kv::Repair repaired = co_await store_.declare_lost(*worker, lost);
    is_complete = is_complete && repaired.is_complete;
    for (const fabric::NodeId node : lost) {
      if (repaired.is_complete) note(*worker, "declare_end", node);
      if (!is_among(declared_lost_, node)) declared_lost_.push_back(node);
    }
    ++repaired_["declarations"];
    for (const auto& [kind, count] : repaired.counts) repaired_[kind] += count;
  }
  co_return is_complete;
}

void Driver::log_loss(fabric::NodeId node, Nanos from, Nanos to) {
  if (losses_ == nullptr && logs_) losses_ = logs_(check::preload_client);
  if (losses_ == nullptr) return;
  const std::string name = fmt::format("n{}", node);
  check::OperationView view;
  view.client = check::preload_client;
  view.kind = OpKind::lost;
  view.key = name;
  view.invoke_ns = from;
  view.return_ns = to;
  losses_->record(view);
}

coro::Task<void> Driver::sweep(ClientWorker* own) {
  constexpr Nanos pause = 5'000'000;
  Slot* slot = own->slots.front().get();
  slot->is_measured = false;
  slot->is_sweeping = true;
  slot->slept_until = -1;
  const std::uint64_t count = load_.swept ? load_.swept->size() : records_.count();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t record = load_.swept ? (*load_.swept)[i] : i;
    if (is_excused(record)) continue;
    bool is_absent = false;
    for (const OpKind kind : {OpKind::get, OpKind::put, OpKind::get}) {
      bool is_stuck = true;
      const Nanos until = own->worker->now() + load_.sweep_patience;
      for (std::uint32_t tries = 0; is_stuck && !own->worker->stopping(); ++tries) {
        if (tries > 0 && own->worker->now() >= until) break;
        if (tries > 0) co_await own->worker->sleep_until(own->worker->now() + pause);
        co_await operate(own, slot, kind, record, -1);
        is_stuck = slot->last == kv::OpStatus::conflict || slot->last == kv::OpStatus::timeout ||
                   slot->last == kv::OpStatus::error ||
                   (slot->last == kv::OpStatus::table_full && !load_.may_be_full);
      }
      if (kind == OpKind::get) is_absent = slot->last == kv::OpStatus::not_found;
      // PUT of an absent key inserts it, and the cuckoo path search may find no free slot in a table that was
      // full before the loss: then "table full" is acceptable. PUT of a present key updates it in its slot
      // and must not report a full table.
      const bool has_no_place =
          is_absent && slot->last == kv::OpStatus::table_full && !declared_lost_.empty();
      if (!is_stuck || has_no_place) continue;
      stuck_.push_back(
          fmt::format("{}: {} {}", key_name({slot->key_at, slot->key_size}), name(kind), name(slot->last)));
    }
  }
}

std::vector<fabric::NodeId> Driver::lost_nodes() const {
  const fabric::FabricReport report = fabric_.report();
  std::vector<fabric::NodeId> lost;
  for (std::uint32_t node = 0; node < report.nodes.size(); ++node) {
    if (report.nodes[node].is_lost) lost.push_back(static_cast<fabric::NodeId>(node));
  }
  return lost;
}

// Whether `node` does the repairs: of the surviving nodes with clients, the one with the lowest number.
bool Driver::repairs_first(fabric::NodeId node) const {
  const std::vector<fabric::NodeId> lost = lost_nodes();
  for (std::uint32_t i = deploy_.server_nodes; i < deploy_.nodes; ++i) {
    if (std::ranges::find(lost, i) == lost.end()) return i == node;
  }
  return false;
}

coro::Task<void> Driver::scrub_lost(fabric::Worker* worker) {
  std::vector<fabric::NodeId> lost = lost_nodes();
  std::erase_if(lost, [this](fabric::NodeId node) { return is_among(tended_, node); });
  if (lost.empty() || !repairs_first(worker->node())) co_return;
  const bool is_complete = co_await repair_lost(worker, lost);
  static_cast<void>(is_complete);  // incomplete repairs are listed in stuck_
}

// Watches for lost nodes during the load, and repairs them LoadConfig::repair_after later.
coro::Task<void> Driver::tend(ClientWorker* own) {
  constexpr Nanos look = 1'000'000;
  fabric::Worker& worker = *own->worker;
  std::map<fabric::NodeId, Nanos> seen;
  while (!own->has_ended && !worker.stopping()) {
    co_await worker.sleep_until(worker.now() + look);
    if (!repairs_first(worker.node())) continue;
    std::vector<fabric::NodeId> due;
    for (const fabric::NodeId node : lost_nodes()) {
      if (seen.emplace(node, worker.now()).second) note(worker, "kill", node);
      if (is_among(tended_, node) || worker.now() < seen[node] + *load_.repair_after) continue;
      due.push_back(node);
    }
    if (due.empty()) continue;
    const bool is_complete = co_await repair_lost(&worker, due);
    if (is_complete) tended_.insert(tended_.end(), due.begin(), due.end());
    if (!is_complete) break;  // the result reports the losses that were not repaired
  }
}

// Fences off the lost nodes and repairs what their clients left half-done (scrub). If this repair cannot
// complete because the lost nodes' memory is out of reach, declares the nodes lost and repairs again what
// their clients left on other nodes.
coro::Task<bool> Driver::repair_lost(fabric::Worker* worker, std::vector<fabric::NodeId> lost) {
  constexpr std::uint32_t tries = 40;
  constexpr Nanos pause = 2'000'000;
  for (const fabric::NodeId node : lost) {
    // Where fencing is unsupported, a lost node means that its whole process is dead, so it issues no more
    // requests.
    const Result<> fenced = fabric_.fence(node);
    if (!fenced && fenced.error().code != ErrorCode::unsupported) {
      stuck_.push_back(
          fmt::format("node {} could not be fenced: {}; nothing was scrubbed", node, fenced.error().message));
      co_return false;
    }
    note(*worker, "fence", node);
    note(*worker, "scrub", node);
  }
  std::vector<kv::ClientId> dead;
  for (const fabric::NodeId node : lost) {
    for (std::uint32_t i = 0; i < deploy_.client_workers; ++i)
      dead.push_back({node, static_cast<std::uint16_t>(i)});
  }
  did_scrub_ = true;
  const auto count = [this](const kv::Repair& repaired) {
    for (const auto& [kind, number] : repaired.counts) scrubbed_[kind] += number;
  };
  const kv::Repair scrubbed = co_await store_.scrub(*worker, dead);
  count(scrubbed);
  bool is_complete = scrubbed.is_complete;
  if (!is_complete) {
    const Nanos begun = worker->now();
    bool is_declared = false;
    for (const fabric::NodeId node : lost) note(*worker, "declare", node);
    for (std::uint32_t i = 0; i < tries && !is_declared && !worker->stopping(); ++i) {
      if (i > 0) co_await worker->sleep_until(worker->now() + pause);
      const kv::Repair declared = co_await store_.declare_lost(*worker, lost);
      count(declared);
      is_declared = declared.is_complete;
    }
    for (const fabric::NodeId node : lost) {
      log_loss(node, begun, worker->now());
      declared_lost_.push_back(node);
      if (is_declared) note(*worker, "declare_end", node);
    }
    const kv::Repair again = co_await store_.scrub(*worker, dead);
    count(again);
    is_complete = is_declared && again.is_complete;
  }
  for (const fabric::NodeId node : lost) {
    if (is_complete) note(*worker, "scrub_end", node);
  }
  if (!is_complete) stuck_.push_back("what lost nodes held was not repaired completely");
  co_return is_complete;
}

bool Driver::is_excused(std::uint64_t record) const {
  if (!load_.failures) return false;
  std::vector<std::byte> bytes(deploy_.key_size);
  records_.key(record, bytes.data());
  const kv::Key key{bytes.data(), records_.key_size(record)};
  return std::ranges::any_of(load_.failures->excuses, [&](const FailurePlan::Excuse& excuse) {
    return store_.needs(key, excuse.node, excuse.server);
  });
}

std::vector<fabric::NodeId> Driver::void_nodes() const {
  std::vector<fabric::NodeId> lost;
  if (!load_.failures) return lost;
  for (const fabric::NodeId node : load_.failures->crashed) {
    if (std::ranges::find(revived_, node) == revived_.end()) lost.push_back(node);
  }
  return lost;
}

}  // namespace loch::workloads
