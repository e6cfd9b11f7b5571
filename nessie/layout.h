// The data table entry (DTE): fixed key and value sizes, chosen at launch.
//
//     0             K        K+8       K+16    K+24             K+24+V     K+32+V       stride
//     | key         | prev   | stamp   | meta  | value          | tail     | unused     |
//     | K           | u64    | u64     | u64   | V              | u64      |            |
//     |<------------- header (152 B at K = 128) -->|
//     |<------------- full entry (160 + V at K = 128) ----------------->|
//
//   prev   the word that this entry replaced, or 0
//   stamp  0: live; else which incarnation of the entry left the index, and the deadline after which it
//          may be reused (Stamp below). ONE word holds what the 2017 text calls recycle flag and timestamp:
//          with two words, an owner could see the flag before the time.
//   meta   0      1        2             4          6     7           8
//          | valid| flags  | generation  | writer   | 0   | watermark |
//          flags: kind (bits 0-1); of a MIGRATE's copy, the source's rank (bits 2-3); the incarnation of
//          the node's memory (bits 4-7)
//          writer: with nessie.placement remote the number of the client that wrote the entry, from 1
//   tail   0 … 0 | watermark byte
//
// K and V are the key and value sizes rounded up to 8 bytes. The stride is a multiple of 64, so that no two
// entries share a cache line. A READ of the header ends in the header's watermark, a READ of the full entry
// in the tail's watermark (polling it relies on the NIC's order, H19 in docs/protocols/nessie.md). Buffers
// for READs of entries have the same layout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/units.h"
#include "common/fabric/region.h"
#include "nessie/word.h"

namespace loch::nessie {

enum class EntryKind : std::uint8_t {
  free = 0,  // the entry belongs to no key: it is in a free list, or was never used
  put = 1,
  tombstone = 2,
  copy = 3,  // a copy made by a MIGRATE (move of a key)
};

// The fields of an entry's meta word.
struct EntryMeta {
  bool is_valid = false;
  EntryKind kind = EntryKind::free;
  std::uint8_t source_rank = 0;  // in a MIGRATE's copy: rank of the source slot among the key's candidates
  std::uint16_t generation = 0;
  std::uint8_t incarnation = 0;  // incarnation of the node's memory
  std::uint16_t writer = 0;      // the client that wrote the entry, if it lies on a memory node; 0: preloaded

  [[nodiscard]] constexpr Word pack() const {
    return watermark_bit | Word{writer} << 32 | Word{generation} << 16 |
           (Word{static_cast<std::uint8_t>(kind)} | Word{source_rank} << 2 | Word{incarnation} << 4) << 8 |
           (is_valid ? 1U : 0U);
  }
  [[nodiscard]] static constexpr EntryMeta unpack(Word word) {
    return {(word & 1) != 0,
            static_cast<EntryKind>((word >> 8) & 3),
            static_cast<std::uint8_t>((word >> 10) & 3),
            static_cast<std::uint16_t>(word >> 16),
            static_cast<std::uint8_t>((word >> 12) & 15),
            static_cast<std::uint16_t>(word >> 32)};
  }
};
static_assert(EntryMeta{true, EntryKind::copy, 2, 0x3FFF}.pack() == (watermark_bit | 0x3FFF'0B01));
static_assert(EntryMeta{true, EntryKind::copy, 2, 1, 15}.pack() == (watermark_bit | 0x1'FB01));
static_assert(EntryMeta::unpack(EntryMeta{.writer = 0xFFFE}.pack()).writer == 0xFFFE);

// The stamp of an entry that left the index. It names the incarnation of the entry, so that a stamp that
// arrives late, or twice, does not mark a later incarnation (case A2 in docs/protocols/nessie.md).
//
//     0                    45          46            60            64
//     | deadline           | suspected | generation  | incarnation |
//
// The deadline is in units of 1,024 ns of the clock of the node that took the entry out of the index, rounded
// up, modulo 2^45 (417 days).
struct Stamp {
  Nanos deadline = 0;
  // True if the writer does not know whether the entry left the index, so that the entry's owner has to find
  // out; false if the entry left the index.
  bool is_suspicion = false;
  std::uint32_t generation = 0;
  std::uint32_t incarnation = 0;

  [[nodiscard]] static constexpr bool is_live(Word word) { return word == 0; }
  [[nodiscard]] constexpr Word pack() const {
    const auto units = static_cast<Word>((deadline + (Nanos{1} << unit_bits) - 1) >> unit_bits);
    const Word word = (units & deadline_mask) | (is_suspicion ? Word{1} << deadline_bits : 0) |
                      (Word{generation} & 0x3FFF) << 46 | Word{incarnation & 15} << 60;
    return word == 0 ? 1 : word;
  }
  // Unpacks a stamp (the mark that an entry left the index). The word has the deadline modulo 2^45 only: the
  // full deadline is the one nearest to `node_now`.
  [[nodiscard]] static constexpr Stamp unpack(Word word, Nanos node_now) {
    const Nanos now_units = node_now >> unit_bits;
    const Word apart = ((word - static_cast<Word>(now_units)) & deadline_mask) << (64 - deadline_bits);
    const Nanos ahead = static_cast<Nanos>(apart) >> (64 - deadline_bits);
    return {(now_units + ahead) * (Nanos{1} << unit_bits), (word >> deadline_bits & 1) != 0,
            static_cast<std::uint32_t>(word >> 46 & 0x3FFF), static_cast<std::uint32_t>(word >> 60)};
  }

 private:
  static constexpr std::uint32_t unit_bits = 10, deadline_bits = 45;
  static constexpr Word deadline_mask = (Word{1} << deadline_bits) - 1;
};
static_assert(Stamp::unpack(Stamp{5'000'000, true, 0x2001, 9}.pack(), 4'000'000).deadline == 5'000'192);
static_assert(Stamp::unpack(Stamp{5'000'000, true, 0x2001, 9}.pack(), 4'000'000).generation == 0x2001);
static_assert(Stamp::unpack(Stamp{5'000'000, true, 0x2001, 9}.pack(), 9'000'000).deadline == 5'000'192);

// Sizes of an entry and offsets within it, in bytes.
class EntryLayout {
 public:
  EntryLayout(std::uint32_t key_size, std::uint32_t value_size)
      : key_size_(key_size),
        value_size_(value_size),
        prev_at_(round_up(key_size, 8)),
        tail_at_(prev_at_ + 24 + round_up(value_size, 8)),
        stride_(round_up(tail_at_ + 8, 64)) {}

  [[nodiscard]] std::uint32_t key_size() const { return key_size_; }
  [[nodiscard]] std::uint32_t value_size() const { return value_size_; }
  [[nodiscard]] std::uint32_t prev_at() const { return prev_at_; }
  [[nodiscard]] std::uint32_t stamp_at() const { return prev_at_ + 8; }
  [[nodiscard]] std::uint32_t meta_at() const { return prev_at_ + 16; }
  [[nodiscard]] std::uint32_t value_at() const { return prev_at_ + 24; }
  [[nodiscard]] std::uint32_t tail_at() const { return tail_at_; }
  [[nodiscard]] std::uint32_t header_bytes() const { return prev_at_ + 24; }
  [[nodiscard]] std::uint32_t full_bytes() const { return tail_at_ + 8; }
  [[nodiscard]] std::uint64_t stride() const { return stride_; }

  // Which bytes of each entry are kept by a simulation that stores values in part: header, the first
  // `kept_value` bytes of the value, and tail. Returns an empty Elision (all bytes are kept) if storing less
  // would save nothing.
  [[nodiscard]] fabric::Elision elision(std::uint32_t kept_value) const {
    const std::uint32_t head = header_bytes() + round_up(kept_value, 8);
    const auto tail = static_cast<std::uint32_t>(stride_ - tail_at_);
    if (kept_value >= value_size_ || head + tail >= stride_) return {};
    return {.entry_bytes = stride_, .keep_head = head, .keep_tail = tail};
  }

 private:
  [[nodiscard]] static constexpr std::uint32_t round_up(std::uint32_t n, std::uint32_t to) {
    return (n + to - 1) / to * to;
  }
  std::uint32_t key_size_;
  std::uint32_t value_size_;
  std::uint32_t prev_at_;
  std::uint32_t tail_at_;
  std::uint64_t stride_;
};

}  // namespace loch::nessie
