// Finds the script that a window slot (place for one operation) of a Driver follows, and records what the
// window slots do as a new script.
#include <algorithm>

#include "workloads/driver_client.h"

namespace loch::workloads {

std::vector<ScriptedOperation> Driver::scripted(const ScriptedClient& who) const {
  if (!load_.script) return {};
  const auto found =
      std::ranges::find_if(*load_.script, [&](const auto& each) { return each.is_same_client(who); });
  return found == load_.script->end() ? std::vector<ScriptedOperation>{} : found->operations;
}

void Driver::transcribe(const ClientWorker& own, const Slot& slot, OpKind kind, std::uint64_t record) {
  const ScriptedClient who{
      own.worker->node(), static_cast<std::uint16_t>(own.index), slot.index, own.incarnation, {}};
  // After a sleep a window slot (place for one operation) wakes a little late, but equally late in every run:
  // record the time that the slot waited for, not the time of waking.
  const Nanos at = slot.slept_until >= 0 ? slot.slept_until : own.worker->now();
  const ScriptedOperation operation{kind, record, at};
  if (slot.is_sweeping) {
    if (!load_.transcript->sweep.is_same_client(who)) load_.transcript->sweep = who;
    load_.transcript->sweep.operations.push_back(operation);
    return;
  }
  Script& all = load_.transcript->load;
  auto found = std::ranges::find_if(all, [&](const auto& each) { return each.is_same_client(who); });
  if (found == all.end()) found = all.insert(all.end(), who);
  found->operations.push_back(operation);
}

}  // namespace loch::workloads
