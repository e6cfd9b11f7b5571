// Runs one worker's repairs, as many at once as it has lanes for them.
#include "nessie/repairs.h"

#include <algorithm>

#include "common/coro/scope.h"

namespace loch::nessie {

RepairLanes::RepairLanes(NessieStore& store, fabric::Worker& worker) {
  for (std::uint32_t i = 0; i < Settings::repairs_at_once; ++i)
    lanes_.push_back(std::make_unique<Lane>(store, worker, store.settings().repair_lane(worker.index(), i)));
}

coro::Task<void> RepairLanes::each(std::size_t count, const Repair* repair) {
  return run_all({.next = 0, .count = count, .repair = repair});
}

coro::Task<void> RepairLanes::run(Lane* lane, Pass* pass) {
  while (pass->next < pass->count) {
    const std::size_t i = pass->next++;
    co_await (*pass->repair)(lane, i);
  }
}

coro::Task<void> RepairLanes::run_all(Pass pass) {
  coro::Scope scope(first().worker.run_queue());
  const std::size_t at_once = std::min(lanes_.size(), pass.count);
  for (std::size_t i = 0; i < at_once; ++i) scope.spawn(run(lanes_[i].get(), &pass));
  co_await scope.join();
}

}  // namespace loch::nessie
