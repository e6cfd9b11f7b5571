// A circular log of entries of any size in private memory: appending overwrites the oldest entries.
//
// Offsets are logical and only increase; the byte at offset o lies at o modulo the capacity, and an entry may
// wrap around the end of the memory. The head is the offset of the next entry. An entry is live while the
// head is at most one capacity beyond the entry's offset; later, at least the entry's first byte has been
// overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "herd_em/keyhash.h"

namespace loch::herd {

// Defects of the known-bad variants of the log.
struct LogDefects {
  bool checks_nothing = false;  // known-bad: overwritten entries are not detected
  // Known-bad: the bytes left before the end of the memory are computed as "capacity - head" in unsigned
  // arithmetic. Once the head exceeds the capacity, the result is huge, so that no entry seems to reach the
  // end of the memory, and the bytes that an entry has beyond the end are lost.
  bool wrap_underflows = false;
};

class Log {
 public:
  struct Header {
    KeyHash key;
    std::uint32_t length = 0;  // bytes of the whole value
    std::uint32_t kept = 0;    // bytes of the value that the log stores
  };
  static_assert(sizeof(Header) == 24);

  // Bytes that an entry takes in the log if `kept` bytes of its value are stored.
  [[nodiscard]] static std::uint64_t entry_bytes(std::uint32_t kept) {
    return sizeof(Header) + (kept + 7) / 8 * 8;
  }

  // `capacity` in bytes is rounded up to a multiple of 8.
  explicit Log(std::uint64_t capacity, LogDefects defects = {});

  [[nodiscard]] std::uint64_t capacity() const { return memory_.size(); }
  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] bool is_live(std::uint64_t offset) const {
    return defects_.checks_nothing || head_ - offset <= memory_.size();
  }
  // Appends an entry, which must not be larger than the log, and returns its offset.
  std::uint64_t append(const Header& header, const std::byte* value);
  // Overwrites a live entry with another of the same size.
  void rewrite(std::uint64_t offset, const Header& header, const std::byte* value);
  // The header of a live entry.
  [[nodiscard]] Header header(std::uint64_t offset) const;
  void read_value(std::uint64_t offset, std::byte* out, std::uint32_t bytes) const;
  // The `bytes` bytes from `offset` on where they lie in memory; null if they wrap around its end.
  [[nodiscard]] const std::byte* in_place(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t at = place(offset);
    return at + bytes <= memory_.size() ? memory_.data() + at : nullptr;
  }
  // The `bytes` bytes from `offset` on where they lie in memory, if an entry at `offset` is live and they do
  // not wrap around the memory's end; else null.
  [[nodiscard]] const std::byte* live_in_place(std::uint64_t offset, std::uint64_t bytes) const {
    return is_live(offset) ? in_place(offset, bytes) : nullptr;
  }
  // The key of a live entry.
  [[nodiscard]] KeyHash key(std::uint64_t offset) const {
    const std::byte* const here = in_place(offset, sizeof(KeyHash));
    if (here == nullptr) [[unlikely]]
      return header(offset).key;
    KeyHash key;
    std::memcpy(&key, here, sizeof key);
    return key;
  }
  // Overwrites the value of a live entry in place; `bytes` must not exceed the entry's kept bytes.
  void overwrite_value(std::uint64_t offset, const std::byte* value, std::uint32_t bytes);
  void prefetch(std::uint64_t offset) const;

 private:
  void put(std::uint64_t offset, const void* bytes, std::uint64_t count);
  void get(std::uint64_t offset, void* out, std::uint64_t count) const;
  // The place in memory of the byte at `offset`: offset modulo the capacity. Offsets of this lap through the
  // memory and of the one before need no division.
  [[nodiscard]] std::uint64_t place(std::uint64_t offset) const {
    const std::uint64_t size = memory_.size(), in_this_lap = offset - lap_;
    if (in_this_lap < size) return in_this_lap;
    const std::uint64_t in_last_lap = in_this_lap + size;
    return in_last_lap < size ? in_last_lap : offset % size;
  }

  std::vector<std::byte> memory_;
  std::uint64_t head_ = 0;
  std::uint64_t lap_ = 0;  // the head's lap through the memory begins here: a multiple of the capacity
  LogDefects defects_;
};

}  // namespace loch::herd
