// A circular log of entries of any size, in private memory: what is appended overwrites what is oldest.
//
// Offsets are logical and only grow; the byte of offset o lies at o modulo the capacity, and an entry that
// reaches the end of the memory goes on at its start. An offset is live until the log's head is a whole
// capacity further: then at least its first byte has been overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "herd_em/keyhash.h"

namespace loch::herd {

// Defects of the known-bad variants of the log.
struct LogDefects {
  bool checks_nothing = false;  // an overwritten offset counts as live
  // "capacity - head" as unsigned numbers, as if the head were a position: after the first turn an entry
  // never seems to reach the end, and what lies beyond it is lost.
  bool wrap_underflows = false;
};

class Log {
 public:
  struct Header {
    KeyHash key;
    std::uint32_t length = 0;  // bytes of the whole value
    std::uint32_t kept = 0;    // bytes of it that are here
  };
  static_assert(sizeof(Header) == 24);

  // The bytes that an entry takes in the log.
  [[nodiscard]] static std::uint64_t entry_bytes(std::uint32_t kept) {
    return sizeof(Header) + (kept + 7) / 8 * 8;
  }

  // Rounded up to a multiple of 8.
  explicit Log(std::uint64_t capacity, LogDefects defects = {});

  [[nodiscard]] std::uint64_t capacity() const { return memory_.size(); }
  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] bool is_live(std::uint64_t offset) const {
    return defects_.checks_nothing || head_ - offset <= memory_.size();
  }
  // Returns the new entry's offset. It must fit the log.
  std::uint64_t append(const Header& header, const std::byte* value);
  // Replaces a live entry by another of the same size.
  void rewrite(std::uint64_t offset, const Header& header, const std::byte* value);
  // The header of the entry at a live offset.
  [[nodiscard]] Header header(std::uint64_t offset) const;
  void read_value(std::uint64_t offset, std::byte* out, std::uint32_t bytes) const;
  // In place: as many bytes as the entry keeps.
  void overwrite_value(std::uint64_t offset, const std::byte* value, std::uint32_t bytes);
  void prefetch(std::uint64_t offset) const;

 private:
  void put(std::uint64_t offset, const void* bytes, std::uint64_t count);
  void get(std::uint64_t offset, void* out, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t place(std::uint64_t offset) const { return offset % memory_.size(); }

  std::vector<std::byte> memory_;
  std::uint64_t head_ = 0;
  LogDefects defects_;
};

}  // namespace loch::herd
