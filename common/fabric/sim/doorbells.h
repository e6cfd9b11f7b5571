// The doorbell registers of a simulated node that its threads share. A work request is handed to the NIC by a
// store to the register of its queue pair. Where several threads' queue pairs have one register, a spin lock
// is around the store, and the threads burn CPU time until it is theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/units.h"
#include "common/fabric/sim/timing.h"

namespace loch::fabric::sim {

class Doorbells {
 public:
  // `registers`: 0 if nothing is shared: no register is waited for.
  explicit Doorbells(std::uint32_t registers = 0) : registers_(registers) {}
  // The register of a queue pair that is made now: the next in turn.
  [[nodiscard]] std::uint16_t assign() {
    if (registers_.empty()) return 0;
    return static_cast<std::uint16_t>(made_++ % registers_.size());
  }
  // A thread comes to a register at `at`, to ring it once. Returns when it has done so; until then it spins.
  // `thread` only tells threads apart.
  [[nodiscard]] Nanos ring(const Timing& timing, std::uint16_t which, const void* thread, Nanos at);
  [[nodiscard]] bool are_shared() const { return !registers_.empty(); }

 private:
  struct Register {
    const void* last = nullptr;   // the thread that had it last
    std::deque<Nanos> gives_up;   // when each of the threads that are there will have rung
  };
  std::vector<Register> registers_;
  std::uint32_t made_ = 0;
};

}  // namespace loch::fabric::sim
