// Byte layout of an item. With keys of 16 bytes and values of 32 bytes it has the published emulation's size,
// 64 bytes with the state at offset 24.
//
//   key | pad to 8 | incarnation u32, version u32 | state u64 | value | pad to 8
//
// state 0: free. With form cas: bit 63 is the write lock, bits 0 … 31 the holder's number plus one. With form
// faa: the number of additions. After the preload only the NIC accesses the state (rule 2 of fabric.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/fabric/region.h"

namespace loch::drtm {

class ItemLayout {
 public:
  ItemLayout(std::uint32_t key_size, std::uint32_t value_size)
      : key_size_(key_size), value_size_(value_size) {}
  [[nodiscard]] std::uint32_t key_size() const { return key_size_; }
  [[nodiscard]] std::uint32_t value_size() const { return value_size_; }
  [[nodiscard]] std::uint32_t version_at() const { return round8(key_size_); }
  [[nodiscard]] std::uint32_t state_at() const { return version_at() + 8; }
  [[nodiscard]] std::uint32_t value_at() const { return state_at() + 8; }
  [[nodiscard]] std::uint32_t bytes() const { return value_at() + round8(value_size_); }
  // The part of each item that memory keeps, if values keep `kept` bytes.
  [[nodiscard]] fabric::Elision elision(std::uint32_t kept) const {
    const std::uint32_t head = value_at() + round8(std::min(kept, value_size_));
    if (head >= bytes()) return {};
    return {.entry_bytes = bytes(), .keep_head = head, .keep_tail = 0};
  }

 private:
  static constexpr std::uint32_t round8(std::uint32_t n) { return (n + 7) / 8 * 8; }
  std::uint32_t key_size_, value_size_;
};

constexpr std::uint64_t lock_bit = std::uint64_t{1} << 63;

}  // namespace loch::drtm
