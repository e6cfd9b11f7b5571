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
  static constexpr std::uint16_t own = 0xffff;  // a register that only one queue pair has
  // The first `private_count` queue pairs have a register of their own, the others `shared` ones; 0 of these:
  // every queue pair has its own.
  explicit Doorbells(std::uint32_t private_count = 0, std::uint32_t shared = 0)
      : private_(private_count), registers_(shared) {}
  // The register of a queue pair that is made now: the next in turn.
  [[nodiscard]] std::uint16_t assign() {
    const std::uint32_t number = made_++;
    if (registers_.empty() || number < private_) return own;
    return static_cast<std::uint16_t>((number - private_) % registers_.size());
  }
  // A thread comes to a shared register at `at`, to ring it once. Returns when it has done so; until then it
  // spins. `thread` only tells threads apart.
  [[nodiscard]] Nanos ring(const Timing& timing, std::uint16_t which, const void* thread, Nanos at);

 private:
  struct Register {
    const void* last = nullptr;  // the thread that had it last
    std::deque<Nanos> gives_up;  // when each of the threads that are there will have rung
  };
  std::uint32_t private_;
  std::vector<Register> registers_;
  std::uint32_t made_ = 0;
};

}  // namespace loch::fabric::sim
