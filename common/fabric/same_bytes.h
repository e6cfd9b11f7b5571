// Compares bytes of registered memory, which others may be changing, with private bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "common/fabric/memory.h"

namespace loch::fabric {

// Whether the `bytes` bytes at `shared` are those at `wanted`, each word of 8 bytes as it was at some
// instant.
[[nodiscard]] inline bool same_bytes(const std::byte* shared, const std::byte* wanted, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, wanted + at, 8);
    if (load_word(shared + at) != word) return false;
  }
  if (at == bytes) return true;
  std::array<std::byte, 8> rest{};
  copy_from_shared(rest.data(), shared + at, bytes - at);
  return std::memcmp(rest.data(), wanted + at, bytes - at) == 0;
}

}  // namespace loch::fabric
