// The doorbell registers of a simulated node. A work request is handed to the NIC by a store to the register
// of its queue pair. A spin lock of the driver protects the store, unless the register is of one queue pair
// alone. Where queue pairs of several threads have one register, a thread burns CPU time until it gets the
// lock.
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
  static constexpr std::uint16_t unlocked = 0xffff;    // stands for a register of one queue pair alone
  static constexpr std::uint16_t one_thread = 0xfffe;  // stands for a register, with its lock, of one thread
  // The first `private_count` queue pairs that are made get a register without a lock each, all others share
  // `shared` registers. If `shared` is 0, every queue pair has one without a lock.
  explicit Doorbells(std::uint32_t private_count = 0, std::uint32_t shared = 0)
      : private_(private_count), registers_(shared) {}
  // Registers that the driver makes when it is told to: all queue pairs of a thread have the same, no other
  // thread has it, and the driver locks it all the same.
  static Doorbells one_for_each_thread() {
    Doorbells bells;
    bells.is_by_thread_ = true;
    return bells;
  }
  // Returns the register of a queue pair that is made now: the shared registers are given out in rotation.
  [[nodiscard]] std::uint16_t assign() {
    if (is_by_thread_) return one_thread;
    const std::uint32_t number = made_++;
    if (registers_.empty() || number < private_) return unlocked;
    return static_cast<std::uint16_t>((number - private_) % registers_.size());
  }
  // A thread wants to ring register `which` at time `at`. Returns when it will have done so; it spins until
  // then. `thread` only identifies the thread.
  [[nodiscard]] Nanos ring(const Timing& timing, std::uint16_t which, const void* thread, Nanos at);

 private:
  struct Register {
    const void* last = nullptr;  // the thread that last rang by this register
    std::deque<Nanos> gives_up;  // for each thread that holds or awaits the lock: when it will have rung
  };
  std::uint32_t private_;
  std::vector<Register> registers_;
  std::uint32_t made_ = 0;
  bool is_by_thread_ = false;
};

}  // namespace loch::fabric::sim
