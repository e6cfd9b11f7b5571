// CRC-64/XZ: the CRC-64 with ECMA-182's polynomial 0x42F0E1EBA9EA3693, reflected, with all bits inverted at
// the start and at the end. Pilaf's published code combines a left-shift table with a right-shift update,
// which is no CRC; docs/protocols/pilaf.md describes the difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace loch::pilaf {

// The checksum of `bytes`, continuing from `before`, the checksum of the bytes in front of them (0: none).
[[nodiscard]] std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace loch::pilaf
