// N hash functions over keys, the slots that they name, and filter bits that none of them uses.
//
// Function i is XXH3 with 128-bit output under its own seed; XXH3 gives the same result on every
// instruction set, so that all nodes of a mixed cluster agree. The low 64 bits of function i name
// the slot, the high 64 bits of function 0 give the filter (their low end) and, where all
// candidates of a key are to lie on one node, that node (their high end): a filter made of bits
// that also choose the slot would be the same for every key of the slot and filter nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace loch::cuckoo {

// More functions than this help no table: the load that can be reached grows by little while every
// miss costs one probe more.
constexpr std::uint32_t max_functions = 4;

// How the candidates of one key lie on the nodes.
enum class Coupling : std::uint8_t {
  decoupled,          // each on any node
  partially_coupled,  // all on one node, which the key's hash chooses
};

struct Shape {
  std::uint32_t nodes = 1;
  std::uint64_t slots_per_node = 0;
  std::uint32_t functions = 3;  // at most max_functions, and no more than the slots a key can use
  Coupling coupling = Coupling::decoupled;

  [[nodiscard]] std::uint64_t slots() const { return slots_per_node * nodes; }
  // Every key can have `functions` different slots.
  [[nodiscard]] bool is_possible() const {
    const std::uint64_t reach = coupling == Coupling::decoupled ? slots() : slots_per_node;
    return nodes > 0 && functions > 0 && functions <= max_functions && reach >= functions;
  }
};

// One slot of the cluster's index.
struct Place {
  std::uint32_t node = 0;
  std::uint64_t slot = 0;  // on that node
  friend bool operator==(const Place&, const Place&) = default;
};

// The hashes of one key, function by function, computed when they are first asked for: most
// look-ups end at the first candidate.
class KeyHash;

class HashFamily {
 public:
  // Aborts if the shape is impossible.
  HashFamily(const Shape& shape, std::uint64_t seed);

  [[nodiscard]] const Shape& shape() const { return shape_; }
  // The key's bytes must outlive the result.
  [[nodiscard]] KeyHash hash(std::span<const std::byte> key) const;

  // A slot by its number over all nodes, 0 … shape().slots()-1, and back.
  [[nodiscard]] std::uint64_t number(const Place& place) const {
    return place.node * shape_.slots_per_node + place.slot;
  }
  [[nodiscard]] Place place(std::uint64_t number) const {
    return {static_cast<std::uint32_t>(number / shape_.slots_per_node), number % shape_.slots_per_node};
  }

 private:
  friend class KeyHash;
  Shape shape_;
  std::array<std::uint64_t, max_functions> seeds_{};
};

class KeyHash {
 public:
  KeyHash() = default;

  // c_i(key), 0 <= i < functions. The candidates of one key all differ: one that would fall on an
  // earlier one moves on to the next free number. Computes every c_j, j <= i, that is still missing.
  [[nodiscard]] const Place& candidate(std::uint32_t i) {
    while (known_ <= i) compute_next();
    return places_[i];
  }
  // The number of functions computed so far, by which CPU time is charged.
  [[nodiscard]] std::uint32_t known() const { return known_; }

  // The key's low `bits` filter bits (at most 32).
  [[nodiscard]] std::uint64_t filter(std::uint32_t bits) {
    if (known_ == 0) compute_next();
    return high_ & ((std::uint64_t{1} << bits) - 1);
  }
  // The rank of this slot among the key's candidates, or `functions` if it is none of them.
  [[nodiscard]] std::uint32_t rank_of(const Place& place);

 private:
  friend class HashFamily;
  KeyHash(const HashFamily& family, std::span<const std::byte> key) : family_(&family), key_(key) {}
  void compute_next();

  const HashFamily* family_ = nullptr;
  std::span<const std::byte> key_;
  std::array<Place, max_functions> places_{};
  std::uint64_t high_ = 0;  // high half of function 0
  std::uint32_t known_ = 0;
};

inline KeyHash HashFamily::hash(std::span<const std::byte> key) const { return KeyHash(*this, key); }

}  // namespace loch::cuckoo
