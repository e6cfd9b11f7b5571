// CRC-64/XZ: the CRC-64 with ECMA-182's polynomial 0x42F0E1EBA9EA3693, reflected, all ones at the start
// and at the end. The published code mixes a left-shift table with a right-shift update, which is no CRC
// (its state map has rank 62 of 64); docs/protocols/pilaf.md has the difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace loch::pilaf {

// Of bytes that follow those whose checksum is `before`; 0: of these alone.
[[nodiscard]] std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace loch::pilaf
