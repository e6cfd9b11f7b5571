// Computes the slots in which n keys lie after they are inserted into a cuckoo table one after the other,
// so that a preload can write the table directly. The result is deterministic: processes that fill the
// memory of different nodes agree without communication.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "common/cuckoo/hash_family.h"

namespace loch::cuckoo {

// Writes the bytes of key number i to `out`; all keys have the same size and are distinct.
using KeyWriter = std::function<void(std::uint64_t i, std::byte* out)>;

struct PlacementStats {
  std::uint64_t keys = 0;
  std::uint64_t moved = 0;         // insertions that found all candidate slots full
  std::uint64_t moves = 0;         // number of moves by which slots were freed for these insertions
  std::uint64_t longest_path = 0;  // largest number of moves for one insertion
  // by_rank[r]: number of keys that end in their candidate slot of rank r
  std::vector<std::uint64_t> by_rank;
  double load = 0;  // load factor: keys / slots

  // Mean number of slots that a look-up of a present key probes: 1 + mean rank.
  [[nodiscard]] double mean_probes() const;
};

// The planned table: for each slot the number of its key (4 bytes per slot).
class Placement {
 public:
  static constexpr std::uint32_t free_slot = 0xFFFF'FFFF;

  // The number of the key that lies in the slot `place`, or free_slot.
  [[nodiscard]] std::uint32_t owner(const Place& place) const { return owners_[family_->number(place)]; }
  [[nodiscard]] std::uint64_t slots() const { return owners_.size(); }
  [[nodiscard]] std::uint32_t owner(std::uint64_t number) const { return owners_[number]; }
  [[nodiscard]] const PlacementStats& stats() const { return stats_; }

 private:
  friend Result<Placement> plan_placement(const HashFamily&, std::uint64_t, std::uint32_t, const KeyWriter&);
  const HashFamily* family_ = nullptr;
  std::vector<std::uint32_t> owners_;
  PlacementStats stats_;
};

// Inserts keys 0 … count-1. Each key goes to its first free candidate slot; if all are full, the shortest
// path of moves frees one (path.h). Fails with `exhausted` if a key finds no place, because the load is
// too high for this number of functions. `family` must outlive the result; count is below 2^32 - 1.
[[nodiscard]] Result<Placement> plan_placement(const HashFamily& family, std::uint64_t count,
                                               std::uint32_t key_size, const KeyWriter& key);

}  // namespace loch::cuckoo
