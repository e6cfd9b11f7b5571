// Computes the slots of a preload's keys without storing any keys or values.
#include "common/cuckoo/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/cuckoo/path.h"

namespace loch::cuckoo {
namespace {

// Number of slots that one search looks at before the table counts as full. Tables below their load limit
// need far fewer: with three hash functions at 90 % load a search looks at some hundred slots.
constexpr std::uint64_t most_searched_slots = 20'000;
// Number of keys that are announced before the first of them is inserted.
constexpr std::uint64_t ahead = 16;

class Planner final : public Occupancy {
 public:
  Planner(const HashFamily& family, std::vector<std::uint32_t>& owners, std::uint32_t key_size,
          const KeyWriter& key, PlacementStats& stats)
      : family_(family), owners_(owners), key_(key), stats_(stats), bytes_(key_size) {
    for (Upcoming& each : upcoming_) each.bytes.resize(key_size);
  }

  // Computes the first candidate slot of key `number`, at most `ahead` keys before it is inserted, and has
  // its line fetched: the slots of a large table lie in no cache.
  void announce(std::uint32_t number) {
    Upcoming& coming = upcoming_[number % ahead];
    key_(number, coming.bytes.data());
    coming.hash = family_.hash(coming.bytes);
    __builtin_prefetch(&owners_[family_.number(coming.hash.candidate(0))], 1);
  }

  // Has the line of the second candidate slot fetched if the first one is taken so far.
  void look_ahead(std::uint32_t number) {
    KeyHash& hash = upcoming_[number % ahead].hash;
    if (family_.shape().functions > 1 && owners_[family_.number(hash.candidate(0))] != Placement::free_slot)
      __builtin_prefetch(&owners_[family_.number(hash.candidate(1))], 1);
  }

  // Inserts a key that was announced.
  [[nodiscard]] bool insert(std::uint32_t number) {
    KeyHash& hash = upcoming_[number % ahead].hash;
    std::array<std::uint64_t, max_functions> slots{};
    for (std::uint32_t rank = 0; rank < family_.shape().functions; ++rank) {
      slots[rank] = family_.number(hash.candidate(rank));
      if (owners_[slots[rank]] == Placement::free_slot) {
        owners_[slots[rank]] = number;
        ++stats_.by_rank[rank];
        return true;
      }
    }
    const Path path =
        shortest_path(*this, std::span(slots).first(family_.shape().functions), most_searched_slots);
    if (!path.found()) return false;
    apply(path);
    owners_[path.slots.front()] = number;
    ++stats_.by_rank[hash.rank_of(family_.place(path.slots.front()))];
    return true;
  }

  [[nodiscard]] bool is_free(std::uint64_t slot) override { return owners_[slot] == Placement::free_slot; }
  std::uint32_t candidates(std::uint64_t slot, std::uint64_t* out) override {
    KeyHash hash = hash_of(owners_[slot]);
    const std::uint32_t functions = family_.shape().functions;
    for (std::uint32_t i = 0; i < functions; ++i) out[i] = family_.number(hash.candidate(i));
    return functions;
  }

 private:
  // Computes the hashes of key `number`. The result refers to bytes_, so it is valid until the next call.
  [[nodiscard]] KeyHash hash_of(std::uint32_t number) {
    key_(number, bytes_.data());
    return family_.hash(bytes_);
  }

  void apply(const Path& path) {
    ++stats_.moved;
    stats_.moves += path.moves();
    stats_.longest_path = std::max<std::uint64_t>(stats_.longest_path, path.moves());
    for (std::size_t i = path.moves(); i > 0; --i) {
      const std::uint64_t from = path.slots[i - 1];
      const std::uint64_t to = path.slots[i];
      KeyHash hash = hash_of(owners_[from]);
      --stats_.by_rank[hash.rank_of(family_.place(from))];
      ++stats_.by_rank[hash.rank_of(family_.place(to))];
      owners_[to] = owners_[from];
      owners_[from] = Placement::free_slot;
    }
  }

  // A key that will be inserted soon; `hash` refers to its bytes.
  struct Upcoming {
    std::vector<std::byte> bytes;
    KeyHash hash;
  };

  const HashFamily& family_;
  std::vector<std::uint32_t>& owners_;
  const KeyWriter& key_;
  PlacementStats& stats_;
  std::vector<std::byte> bytes_;
  std::array<Upcoming, ahead> upcoming_;
};

}  // namespace

double PlacementStats::mean_probes() const {
  double probes = 0;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    probes += static_cast<double>(rank + 1) * static_cast<double>(by_rank[rank]);
  }
  return keys == 0 ? 0 : probes / static_cast<double>(keys);
}

Result<Placement> plan_placement(const HashFamily& family, std::uint64_t count, std::uint32_t key_size,
                                 const KeyWriter& key) {
  LOCH_CHECK_LT(count, std::uint64_t{Placement::free_slot});
  Placement placement;
  placement.family_ = &family;
  placement.owners_.assign(family.shape().slots(), Placement::free_slot);
  PlacementStats& stats = placement.stats_;
  stats.by_rank.assign(family.shape().functions, 0);
  stats.load = static_cast<double>(count) / static_cast<double>(family.shape().slots());
  Planner planner(family, placement.owners_, key_size, key, stats);
  for (std::uint64_t i = 0; i < std::min(ahead, count); ++i) planner.announce(static_cast<std::uint32_t>(i));
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i + ahead / 2 < count) planner.look_ahead(static_cast<std::uint32_t>(i + ahead / 2));
    if (!planner.insert(static_cast<std::uint32_t>(i))) {
      return fail(
          ErrorCode::exhausted,
          fmt::format("the index has no place for key {} of {}: {} slots in all (load {:.2f}) with {} hash "
                      "functions; a lower load factor or another hash function is needed",
                      i + 1, count, family.shape().slots(), stats.load, family.shape().functions));
    }
    ++stats.keys;
    if (i + ahead < count) planner.announce(static_cast<std::uint32_t>(i + ahead));
  }
  return placement;
}

}  // namespace loch::cuckoo
