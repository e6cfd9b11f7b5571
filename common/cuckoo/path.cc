// Finds a chain of moves that frees a slot, by breadth-first search.
#include "common/cuckoo/path.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "common/cuckoo/hash_family.h"

namespace loch::cuckoo {

Path shortest_path(Occupancy& table, std::span<const std::uint64_t> from, std::uint64_t most_slots) {
  struct Visit {
    std::uint64_t slot;
    // index into `visits` of the slot from which the search came here; that of a start slot is its own
    std::size_t parent;
  };
  Path path;
  std::vector<Visit> visits;
  std::unordered_set<std::uint64_t> seen;
  const auto visit = [&](std::uint64_t slot, std::size_t parent) {
    if (seen.insert(slot).second) visits.push_back({slot, parent});
  };
  for (const std::uint64_t slot : from) visit(slot, visits.size());
  for (std::size_t head = 0; head < visits.size() && path.examined < most_slots; ++head) {
    const Visit here = visits[head];
    ++path.examined;
    if (table.is_free(here.slot)) {
      for (std::size_t at = head;; at = visits[at].parent) {
        path.slots.push_back(visits[at].slot);
        if (visits[at].parent == at) break;
      }
      std::ranges::reverse(path.slots);
      return path;
    }
    std::array<std::uint64_t, max_functions> next{};
    const std::uint32_t count = table.candidates(here.slot, next.data());
    for (std::uint32_t i = 0; i < count; ++i) visit(next[i], head);
  }
  return path;
}

}  // namespace loch::cuckoo
