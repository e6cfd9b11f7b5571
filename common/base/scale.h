// Scales uniform random bits, such as a hash, to a range.
#pragma once

#include <cstdint>

namespace loch {

// Scales 64 uniform random bits to [0, n), by taking the high word of the product.
[[nodiscard]] constexpr std::uint64_t scaled(std::uint64_t bits, std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * n) >> 64);
}

}  // namespace loch
