// Where n keys come to lie in a cuckoo table if they are inserted one after the other: what a
// preload needs to build the table directly. Deterministic, so that processes which each fill their
// own nodes' memory agree without a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "common/cuckoo/hash_family.h"

namespace loch::cuckoo {

// Writes key number i; all keys have the same size and differ.
using KeyWriter = std::function<void(std::uint64_t i, std::byte* out)>;

struct PlacementStats {
  std::uint64_t keys = 0;
  std::uint64_t moved = 0;             // insertions that found all candidates full
  std::uint64_t moves = 0;             // keys that were moved for them
  std::uint64_t longest_path = 0;      // moves
  std::vector<std::uint64_t> by_rank;  // keys whose slot is their candidate number r, in the end
  double load = 0;                     // keys / slots

  // Slots that a look-up of a present key probes, on average: 1 + mean rank.
  [[nodiscard]] double mean_probes() const;
};

// The planned table: the owner of each slot, and nothing else (4 bytes per slot).
class Placement {
 public:
  static constexpr std::uint32_t free_slot = 0xFFFF'FFFF;

  // The number of the key in this slot, or free_slot.
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

// Inserts keys 0 … count-1: each goes to its first free candidate, and where all are full, the
// shortest path frees one (path.h). `exhausted` when some key finds no place: the load is too high
// for this many functions. The family must outlive the result; count is below 2^32 - 1.
[[nodiscard]] Result<Placement> plan_placement(const HashFamily& family, std::uint64_t count,
                                               std::uint32_t key_size, const KeyWriter& key);

}  // namespace loch::cuckoo
