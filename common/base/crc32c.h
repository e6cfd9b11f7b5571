// The checksum CRC-32C (Castagnoli), byte by byte with a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace loch {

[[nodiscard]] inline std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t rest = i;
      for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? 0x82F63B78U : 0);
      made[i] = rest;
    }
    return made;
  }();
  std::uint32_t rest = ~0U;
  for (const std::byte byte : bytes)
    rest = (rest >> 8) ^ table[(rest ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~rest;
}

}  // namespace loch
