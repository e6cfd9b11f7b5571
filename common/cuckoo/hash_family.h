// A family of N hash functions over keys: the candidate slots that they give a key, and filter bits that
// are independent of the slots.
//
// Function i is XXH3 with 128-bit output and its own seed; XXH3 gives the same result on every
// instruction set, so that all nodes of a mixed cluster agree. The low 64 bits of function i choose the
// slot. The high 64 bits of function 0 give the filter (its low end) and, where all candidates of a key
// must lie on one node, that node (its high end). Filter bits that also chose the slot would be equal for
// all keys of a slot and would filter nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace loch::cuckoo {

// More functions help no table: the achievable load hardly grows, while every look-up of an absent key
// costs one probe more.
constexpr std::uint32_t max_functions = 4;

// How the candidate slots of one key are distributed over the nodes.
enum class Coupling : std::uint8_t {
  decoupled,          // each candidate may lie on any node
  partially_coupled,  // all candidates lie on one node, which the key's hash chooses
};

struct Shape {
  std::uint32_t nodes = 1;
  std::uint64_t slots_per_node = 0;
  // number of hash functions: at most max_functions and at most the slots that a key can use
  std::uint32_t functions = 3;
  Coupling coupling = Coupling::decoupled;

  [[nodiscard]] std::uint64_t slots() const { return slots_per_node * nodes; }
  // Whether every key can have `functions` different candidate slots.
  [[nodiscard]] bool is_possible() const {
    const std::uint64_t reach = coupling == Coupling::decoupled ? slots() : slots_per_node;
    return nodes > 0 && functions > 0 && functions <= max_functions && reach >= functions;
  }
};

// One slot of the cluster's index: its node and its number on that node.
struct Place {
  std::uint32_t node = 0;
  std::uint64_t slot = 0;  // index of the slot on `node`
  friend bool operator==(const Place&, const Place&) = default;
};

// The hashes of one key. Each function is computed when it is first needed, because most look-ups end at
// the first candidate.
class KeyHash;

class HashFamily {
 public:
  // Aborts if `shape` is impossible (Shape::is_possible).
  HashFamily(const Shape& shape, std::uint64_t seed);

  [[nodiscard]] const Shape& shape() const { return shape_; }
  // Returns the hashes of `key`, whose bytes must outlive the result.
  [[nodiscard]] KeyHash hash(std::span<const std::byte> key) const;

  // Converts a slot to its number over all nodes, 0 … shape().slots()-1; place() converts back.
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

  // Candidate slot c_i of the key, 0 <= i < functions. The candidates of a key all differ: a function
  // that hits an earlier candidate takes the next slot number. Computes c_0 to c_i as far as they are not
  // known yet.
  [[nodiscard]] const Place& candidate(std::uint32_t i) {
    while (known_ <= i) compute_next();
    return places_[i];
  }
  // Number of hash functions computed so far, for which CPU time is charged.
  [[nodiscard]] std::uint32_t known() const { return known_; }

  // The low `bits` (at most 32) filter bits of the key.
  [[nodiscard]] std::uint64_t filter(std::uint32_t bits) {
    if (known_ == 0) compute_next();
    return high_ & ((std::uint64_t{1} << bits) - 1);
  }
  // The rank of a slot among the key's candidates; `functions` if the slot is not a candidate.
  [[nodiscard]] std::uint32_t rank_of(const Place& place);

 private:
  friend class HashFamily;
  KeyHash(const HashFamily& family, std::span<const std::byte> key) : family_(&family), key_(key) {}
  void compute_next();

  const HashFamily* family_ = nullptr;
  std::span<const std::byte> key_;
  std::array<Place, max_functions> places_{};
  std::uint64_t high_ = 0;  // high 64 bits of hash function 0
  std::uint32_t known_ = 0;
};

inline KeyHash HashFamily::hash(std::span<const std::byte> key) const { return KeyHash(*this, key); }

}  // namespace loch::cuckoo
