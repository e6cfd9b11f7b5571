// YCSB's 64-bit FNV-1a hash of an integer: hashes the integer's eight octets, the lowest first, and returns
// the absolute value of the result.
#pragma once

#include <cstdint>

namespace loch::workloads {

[[nodiscard]] constexpr std::uint64_t fnv64(std::uint64_t value) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (int octet = 0; octet < 8; ++octet) {
    hash ^= value & 0xFF;
    hash *= 1099511628211ULL;
    value >>= 8;
  }
  // Computes Java's Math.abs of a signed long, which maps the smallest long to itself.
  return (hash >> 63) != 0 ? ~hash + 1 : hash;
}

}  // namespace loch::workloads
