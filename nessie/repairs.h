// Repairs of many single words and entries by one worker, several under way at once, each in a lane
// (resources of one outstanding operation) of its own. One by one, each would wait for its own round trips.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

class RepairLanes {
 public:
  // `store` and `worker` must outlive the lanes. A worker has one object of this class at a time.
  RepairLanes(NessieStore& store, fabric::Worker& worker);
  // The lane for what is not a repair of a single word or entry, such as reading whole tables; each() uses
  // it, too.
  [[nodiscard]] Lane& first() { return *lanes_.front(); }

  // Makes the repair number `i` in a lane. It has to decide by what it reads itself, and to change words by
  // CAS on what it has read: clients and other repairs are under way meanwhile.
  using Repair = std::function<coro::Task<void>(Lane* lane, std::size_t i)>;
  // Makes the repairs 0 to `count` - 1, begun in this order, at most Settings::repairs_at_once of them under
  // way. Returns when all have ended. `repair` outlives the call.
  [[nodiscard]] coro::Task<void> each(std::size_t count, const Repair* repair);

 private:
  struct Pass {
    std::size_t next = 0, count = 0;
    const Repair* repair = nullptr;
  };
  [[nodiscard]] static coro::Task<void> run(Lane* lane, Pass* pass);
  [[nodiscard]] coro::Task<void> run_all(Pass pass);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

// The context of one repair: marks that entries left the index are written at once.
[[nodiscard]] inline Access begin_repair(Lane& lane) {
  return {.lane = lane, .stats = nullptr, .started = lane.worker.now(), .marks_at_once = true};
}

}  // namespace loch::nessie
