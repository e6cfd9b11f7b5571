// Computes a key's candidate slots and filter bits.
#include "common/cuckoo/hash_family.h"

#define XXH_INLINE_ALL  // inlined, because keys are so short that a call would cost as much as the hash
#include <xxhash.h>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/scale.h"

namespace loch::cuckoo {
HashFamily::HashFamily(const Shape& shape, std::uint64_t seed) : shape_(shape) {
  LOCH_CHECK(shape.is_possible(), "{} functions over {} x {} slots", shape.functions, shape.nodes,
             shape.slots_per_node);
  for (std::uint32_t i = 0; i < max_functions; ++i) seeds_[i] = sub_seed(seed, "cuckoo", i);
}

void KeyHash::compute_next() {
  const Shape& shape = family_->shape_;
  const std::uint32_t i = known_;
  LOCH_CHECK_LT(i, shape.functions);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key_.data(), key_.size(), family_->seeds_[i]);
  if (i == 0) high_ = hash.high64;
  const bool is_coupled = shape.coupling == Coupling::partially_coupled;
  // The key may use `reach` consecutive slot numbers, beginning with `first`.
  const std::uint64_t reach = is_coupled ? shape.slots_per_node : shape.slots();
  const std::uint64_t node = is_coupled ? ((high_ >> 32) * shape.nodes) >> 32 : 0;
  const std::uint64_t first = node * shape.slots_per_node;
  std::uint64_t within = scaled(hash.low64, reach);
  for (std::uint32_t j = 0; j < i;) {
    if (family_->number(places_[j]) == first + within) {
      within = within + 1 == reach ? 0 : within + 1;
      j = 0;
    } else {
      ++j;
    }
  }
  // Without a division where the node is known.
  places_[i] = is_coupled ? Place{static_cast<std::uint32_t>(node), within} : family_->place(within);
  ++known_;
}

std::uint32_t KeyHash::rank_of(const Place& place) {
  const std::uint32_t functions = family_->shape_.functions;
  for (std::uint32_t i = 0; i < functions; ++i) {
    if (candidate(i) == place) return i;
  }
  return functions;
}

}  // namespace loch::cuckoo
