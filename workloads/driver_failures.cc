// What a Driver does about failures: the keeper's repairs while the load goes on, scrub after it, and the
// final sweep, which demands that every key is in service again.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "workloads/driver_client.h"

namespace loch::workloads {

using measure::OpKind;

coro::Task<void> Driver::keep(ClientWorker* own) {
  constexpr std::uint32_t tries = 40;
  constexpr Nanos pause = 2'000'000;
  fabric::Worker& worker = *own->worker;
  // One that cannot be completed yet may have to wait for another: a scrub needs all of the index, a part of
  // which may be a lost node's that is declared later.
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
    if (!is_complete && !worker.stopping()) {
      stuck_.push_back(fmt::format("the {} begun at {} ns was not complete after {} tries",
                                   one.step->lost.empty() ? "scrub" : "declaration", one.step->at, tries));
    }
  }
}

coro::Task<bool> Driver::repair(fabric::Worker* worker, const FailurePlan::Repair* step, bool is_first) {
  bool is_complete = true;
  // Once: a node that is back by the next try is a member again.
  const auto fence = [this, is_first](fabric::NodeId node) {
    if (!is_first) return;
    const Result<> fenced = fabric_.fence(node);
    LOCH_CHECK(fenced.has_value(), "a fabric that fails by plan can fence");
  };
  if (!step->dead.empty()) {
    for (const kv::ClientId& dead : step->dead) fence(dead.node);
    const std::vector<kv::ClientId> dead = step->dead;
    const kv::Repair repaired = co_await store_.scrub(*worker, dead);
    is_complete = repaired.is_complete;
    ++repaired_["scrubs"];
    for (const auto& [kind, count] : repaired.counts) repaired_[kind] += count;
  }
  if (!step->lost.empty()) {
    for (const fabric::NodeId node : step->lost) fence(node);
    const std::vector<fabric::NodeId> lost = step->lost;
    const kv::Repair repaired = co_await store_.declare_lost(*worker, lost);
    is_complete = is_complete && repaired.is_complete;
    ++repaired_["declarations"];
    for (const auto& [kind, count] : repaired.counts) repaired_[kind] += count;
  }
  co_return is_complete;
}

void Driver::log_loss(fabric::NodeId node, Nanos from, Nanos to) {
  if (losses_ == nullptr) return;
  const std::string name = fmt::format("n{}", node);
  check::OperationView view;
  view.client = check::preload_client;
  view.kind = check::OpKind::lost;
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
      if (!is_stuck) continue;
      stuck_.push_back(fmt::format("{}: {} {}", key_name({slot->key.data(), deploy_.key_size}),
                                   measure::name(kind), kv::name(slot->last)));
    }
  }
}

coro::Task<void> Driver::scrub_lost(fabric::Worker* worker) {
  const fabric::FabricReport report = fabric_.report();
  std::vector<fabric::NodeId> lost;
  std::optional<fabric::NodeId> first;
  for (std::uint32_t node = 0; node < report.nodes.size(); ++node) {
    if (report.nodes[node].is_lost)
      lost.push_back(static_cast<fabric::NodeId>(node));
    else if (!first && deploy_.drives(static_cast<fabric::NodeId>(node)))
      first = static_cast<fabric::NodeId>(node);
  }
  // One survivor repairs: the lowest with clients.
  if (lost.empty() || first != worker->node()) co_return;
  for (const fabric::NodeId node : lost) {
    // A fabric that cannot fence (shm) has lost the whole process: nothing of it executes any more.
    const Result<> fenced = fabric_.fence(node);
    if (!fenced && fenced.error().code != ErrorCode::unsupported) co_return;
  }
  std::vector<kv::ClientId> dead;
  for (const fabric::NodeId node : lost) {
    for (std::uint32_t i = 0; i < deploy_.client_workers; ++i)
      dead.push_back({node, static_cast<std::uint16_t>(i)});
  }
  kv::Repair repaired = co_await store_.scrub(*worker, dead);
  scrubbed_ = std::move(repaired.counts);
  did_scrub_ = true;
}

bool Driver::is_excused(std::uint64_t record) const {
  if (!load_.failures) return false;
  std::vector<std::byte> bytes(deploy_.key_size);
  records_.key(record, bytes.data());
  const kv::Key key{bytes.data(), deploy_.key_size};
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
