// Finds operations that do not end although none of their requests failed: the event that they wait for never
// comes.
#include "app/explore/run.h"

#include <fmt/format.h>

#include <algorithm>

namespace loch::explore {
namespace {

using fabric::WorkRequest;
using Alarms = fabric::step::StepFabric::Alarms;

}  // namespace

std::string Run::stuck() const {
  std::string who;
  for (const auto& client : clients_) {
    if (client->is_done || client->is_dead) continue;
    who += fmt::format("{}client {}", who.empty() ? "" : ", ", static_cast<char>('A' + client->number));
  }
  return who + " does not end: waits for ever, and nobody can do anything";
}

std::string Run::stopped() const {
  // A time-out proves that an operation waits for ever only if no deadline passed early, the clocks did not
  // jump, and the protocol promises service.
  if (left_.late != plan_.bounds.late || left_.clocks != plan_.bounds.clocks || !demands_service()) return {};
  const bool has_dead = std::ranges::any_of(clients_, [](const auto& c) { return c->is_dead; });
  // Locks and entries that a dead client holds may block other clients until a repair.
  const bool is_held =
      has_dead && plan_.module->promise(kv::Loss::client_killed, plan_.options) != kv::Promise::serves;
  if (is_held) return {};
  for (const Operation& o : operations_) {
    if (!o.ended || o.is_troubled || o.status != kv::OpStatus::timeout) continue;
    return fmt::format(
        "{} of client {} does not end: it waits until it gives up, and nothing of its own has failed",
        plan_.scenario.describe(o.step), static_cast<char>('A' + o.client));
  }
  return {};
}

void Run::note_trouble(std::uint8_t w, const WorkRequest& request) {
  for (const auto& client : clients_) {
    const bool is_its =
        client->worker == w || (client_of(w) == nullptr && worker(client->worker).node() == request.peer);
    if (is_its && client->running) operations_[*client->running].is_troubled = true;
  }
}

// Whether another worker has an earlier deadline than worker `w`, so that the other worker may still make
// progress once that deadline passes.
bool Run::is_early(std::uint8_t w) {
  const auto left = [this](fabric::Worker& each) {
    const Nanos at = fabric_->next_alarm(each, Alarms::deadlines).at;
    return at == fabric::forever ? at : at - each.now();
  };
  const Nanos own = left(worker(w));
  return std::ranges::any_of(workers_, [&](fabric::Worker* each) { return left(*each) < own; });
}

// Called when a deadline of worker `w` passes. If any worker can still take a step, the operation on worker
// `w` may only be slow, and its time-out is no violation.
void Run::note_impatience(std::uint8_t w) {
  const Client* client = client_of(w);
  if (client == nullptr || !client->running || operations_[*client->running].is_troubled) return;
  bool is_slow = false;
  for (std::uint8_t each = 0; each < workers_.size() && !is_slow; ++each) is_slow = can_go_on(each);
  operations_[*client->running].is_troubled = is_slow;
}

void Run::note_trouble_of_all() {
  for (Operation& each : operations_) each.is_troubled = each.is_troubled || !each.ended;
}

}  // namespace loch::explore
