// Functions that draw random integers for the parts of a fuzz scenario.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/rng.h"

namespace loch::fuzz {

// A uniformly distributed integer in [least, most].
[[nodiscard]] inline std::uint64_t between(Rng& rng, std::uint64_t least, std::uint64_t most) {
  return least + rng.below(most - least + 1);
}

template <typename T>
[[nodiscard]] const T& pick(Rng& rng, const std::vector<T>& from) {
  return from[rng.below(from.size())];
}

}  // namespace loch::fuzz
