// Finding a way to free a slot: a chain of moves, planned before anything is changed and applied
// from its last move to its first, so that every key is in the table at every moment.
//
//   path:   s0 -> s1 -> s2 -> (free)        applied:  s2's key moves to the free slot, then s1's
//                                           key to s2, then s0's key to s1; s0 is free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace loch::cuckoo {

// What a search must know of a table. Slots are numbers over all nodes.
class Occupancy {
 public:
  virtual ~Occupancy() = default;
  [[nodiscard]] virtual bool is_free(std::uint64_t slot) = 0;
  // The candidates, in rank order, of the key in an occupied slot; writes at most max_functions of
  // them to `out` and returns how many.
  virtual std::uint32_t candidates(std::uint64_t slot, std::uint64_t* out) = 0;
};

struct Path {
  // slots[0] is the one that becomes free; slots.back() is free now. Empty: none was found.
  std::vector<std::uint64_t> slots;
  std::uint64_t examined = 0;  // slots looked at
  [[nodiscard]] bool found() const { return !slots.empty(); }
  [[nodiscard]] std::size_t moves() const { return slots.empty() ? 0 : slots.size() - 1; }
};

// Breadth first from the slots of `from`, in their order: the shortest path, and of those the one
// that ranks first. Gives up after looking at `most_slots` slots.
[[nodiscard]] Path shortest_path(Occupancy& table, std::span<const std::uint64_t> from,
                                 std::uint64_t most_slots);

}  // namespace loch::cuckoo
