// Finds a chain of moves that frees a slot of a cuckoo table. A path is planned before any slot is
// changed, and applied from its last move to its first, so that every key is in the table at every
// moment.
//
//   path:   s0 -> s1 -> s2 -> (free)        applied:  s2's key moves to the free slot, then s1's
//                                           key to s2, then s0's key to s1; s0 is free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace loch::cuckoo {

// The view of a table that a path search needs. Slots are numbered over all nodes.
class Occupancy {
 public:
  virtual ~Occupancy() = default;
  [[nodiscard]] virtual bool is_free(std::uint64_t slot) = 0;
  // Writes the candidate slots, in rank order, of the key in an occupied slot to `out` (at most
  // max_functions) and returns their number.
  virtual std::uint32_t candidates(std::uint64_t slot, std::uint64_t* out) = 0;
};

struct Path {
  // slots[0] is the slot that becomes free; slots.back() is free already. Empty if no path was found.
  std::vector<std::uint64_t> slots;
  std::uint64_t examined = 0;  // number of slots that the search looked at
  [[nodiscard]] bool found() const { return !slots.empty(); }
  [[nodiscard]] std::size_t moves() const { return slots.empty() ? 0 : slots.size() - 1; }
};

// Breadth-first search for a path from one of the slots `from` to a free slot. Returns a shortest path; of
// several, the one that is found first in the order of `from` and of each key's candidates. Gives up after
// looking at `most_slots` slots.
[[nodiscard]] Path shortest_path(Occupancy& table, std::span<const std::uint64_t> from,
                                 std::uint64_t most_slots);

}  // namespace loch::cuckoo
