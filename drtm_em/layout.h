// Byte layout of an item. With keys of 16 bytes and values of 32 bytes an item has 64 bytes and its state at
// offset 24, as in the published emulation.
//
//   key | pad to 8 | incarnation u32, version u32 | state u64 | value | pad to 8
//
// With option atomics=cas, state 0 is an unlocked item; else bit 63 is the write lock, and bits 0 … 31 are
// the number of the client that holds it, plus one. With atomics=faa, the state is the number of additions to
// the item. After the preload only the NIC accesses the state (rule 2 of fabric.h).
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
  // Says which bytes of an item a simulation stores, if it stores only the first `kept` bytes of the value.
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
