// The set of visited states. Each has a bit mask of the moves that no visit has explored yet, because they
// were in the sleep set at every visit. It is a hash table with open addressing and 24 bytes per slot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/explore/run.h"

namespace loch::explore {

class Visited {
 public:
  Visited() : slots_(1U << 12U) {}

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Returns a pointer to the state's mask if the state is known. Otherwise inserts the state with `mask`, and
  // returns nullopt.
  std::optional<std::uint64_t*> find_or_insert(Hash state, std::uint64_t mask) {
    if (size_ * 3 >= slots_.size() * 2) grow();
    if (state == Hash{}) state.low = 1;  // a zero hash marks an empty slot
    Slot& slot = place(slots_, state);
    if (slot.state == state) return &slot.mask;
    slot = {state, mask};
    ++size_;
    return std::nullopt;
  }

 private:
  struct Slot {
    Hash state;
    std::uint64_t mask = 0;
  };
  static Slot& place(std::vector<Slot>& slots, const Hash& state) {
    std::size_t at = state.low & (slots.size() - 1);
    while (slots[at].state != Hash{} && slots[at].state != state) at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }
  void grow() {
    std::vector<Slot> larger(slots_.size() * 2);
    for (const Slot& slot : slots_) {
      if (slot.state != Hash{}) place(larger, slot.state) = slot;
    }
    slots_ = std::move(larger);
  }
  std::vector<Slot> slots_;  // the size is a power of two
  std::uint64_t size_ = 0;
};

}  // namespace loch::explore
