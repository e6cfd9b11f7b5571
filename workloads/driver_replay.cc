// Replays a trace: deals its operations to window slots (places for one operation each) and issues them when
// they are due.
#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "workloads/driver_client.h"

namespace loch::workloads {

// Deals each operation of the trace to a window slot (place for one operation) by the hash of its record,
// over the slots of the whole cluster, so that every process computes the same assignment.
void Driver::deal_trace() {
  const std::uint64_t slots =
      std::uint64_t{deploy_.driving_nodes()} * deploy_.client_workers * deploy_.window;
  std::vector<Slot*> local(slots, nullptr);
  for (const auto& own : clients_) {
    for (const auto& slot : own->slots) local[slot->number] = slot.get();
  }
  const std::vector<TraceEvent>& events = load_.replay->trace->events();
  for (std::size_t i = 0; i < events.size(); ++i) {
    Slot* const slot = local[mix64(events[i].record) % slots];
    if (slot != nullptr) slot->dealt.push_back(static_cast<std::uint32_t>(i));
  }
}

Nanos Driver::replay_due(const TraceEvent& event) const {
  constexpr double latest = 1e18;
  const double at = static_cast<double>(event.at) / load_.replay->speed;
  return begin_ns_.load(std::memory_order_relaxed) + std::llround(std::min(at, latest));
}

coro::Task<void> Driver::replay_main(ClientWorker* own, Slot* slot) {
  fabric::Worker& worker = *own->worker;
  for (const std::uint32_t index : slot->dealt) {
    if (worker.stopping() || is_swept_) break;
    const TraceEvent event = load_.replay->trace->events()[index];
    Nanos due = -1;
    if (load_.replay->speed > 0) {
      due = replay_due(event);
      if (due > worker.now()) co_await worker.sleep_until(due);
      if (worker.stopping()) break;
      if (due >= begin_ns_ + load_.warmup) own->tally.lag_ns.record(worker.now() - due);
    }
    slot->value_bytes = event.value_bytes;
    co_await operate(own, slot, event.kind(), event.record, due);
  }
}

}  // namespace loch::workloads
