// Byte layouts of RACE hashing (Zuo et al., USENIX ATC 2021) and where a key can be.
//
//   word     0     8     16              50           62       63
//            | fp  | len | block         | generation | frozen | pending |       len 0: free
//   bucket   | header u64 | word u64 [7] |                                       64 bytes
//   header   | depth u30 | moving u1 | laid out u1 | suffix u32 |
//   group    | main bucket 2g | overflow bucket g | main bucket 2g + 1 |         192 bytes
//   directory  | global depth u64 | entry u64 [2^largest depth] |
//   entry    | 0 u8 | depth + 1 u8 | lock: client + 1 u24 | lock: number u24 |   0: no such subtable
//   block    | generation u16 | key bytes u16 | value bytes u32 | writer u32 | 0 u32 | key | value | pad |
//   crc u32 |
//
// A slot is one word, shown by its bits: it names the block that holds a key and its value, with the key's
// fingerprint `fp`. A combined bucket is a main bucket and the overflow bucket beside it; one READ of 128
// bytes fetches it. A key is in one of two combined buckets of one subtable, so that two READs fetch the 28
// slots that may name it. `block` (offset) and `len` (length of the block) are in units of 64 bytes; a block
// has the size of the largest value. The published word has 48 bits for the block, and neither the generation
// nor the flags frozen and pending.
//
// The subtable of suffix s and depth d holds the keys whose hash has the low d bits s. It lies behind the s
// subtables of lower suffixes and is split into itself and the subtable of suffix s | 1 << d. A bucket's
// header says which keys the bucket holds; the directory tells clients where to look first.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/base/crc32c.h"
#include "common/base/rng.h"
#include "common/base/scale.h"
#include "common/fabric/memory.h"
#include "common/fabric/region.h"
#include "common/kv/protocol.h"
#include "common/kv/value.h"

namespace loch::race {

using Word = std::uint64_t;

constexpr std::uint32_t slots_per_bucket = 7, slots_per_group = 3 * slots_per_bucket;
constexpr std::uint32_t bucket_bytes = 64, combined_bytes = 2 * bucket_bytes, group_bytes = 3 * bucket_bytes;
constexpr std::uint32_t block_unit = 64;
constexpr std::uint32_t generations = 1U << 12;

// `count` bits of a word, from bit `at` on.
[[nodiscard]] constexpr std::uint32_t bits(Word word, std::uint32_t at, std::uint32_t count) {
  return static_cast<std::uint32_t>(word >> at & ((Word{1} << count) - 1));
}

// A slot's word, unpacked: the block that it names, and the fingerprint of the block's key.
struct Entry {
  static constexpr Word block_mask = (Word{1} << 34) - 1;
  std::uint32_t fingerprint = 0, units = 0;
  std::uint64_t block = 0;  // offset in the node's region of blocks, in units of 64 bytes
  std::uint32_t generation = 0;
  bool is_pending = false;  // not committed yet; unpack() ignores the frozen bit
  [[nodiscard]] constexpr Word pack() const {
    return (Word{fingerprint} & 0xFF) | (Word{units} & 0xFF) << 8 | (block & block_mask) << 16 |
           Word{generation % generations} << 50 | Word{is_pending} << 63;
  }
  [[nodiscard]] static constexpr Entry unpack(Word word) {
    return {bits(word, 0, 8), bits(word, 8, 8), word >> 16 & block_mask, bits(word, 50, 12),
            (word >> 63) != 0};
  }
  friend bool operator==(const Entry&, const Entry&) = default;
};

// A frozen word, in a bucket that a split is moving: an entry that counts and must not be changed. In any
// other bucket: a free slot, whose entry has been moved.
constexpr Word frozen_bit = Word{1} << 62;
[[nodiscard]] constexpr bool is_frozen(Word word) { return (word & frozen_bit) != 0; }
[[nodiscard]] constexpr bool is_pending(Word word) { return (word >> 63) != 0; }
[[nodiscard]] constexpr bool is_free(Word word) { return (word & 0xFF00) == 0; }
// The word of a free slot that keeps the block of `word` for the client whose INSERT takes the slot. Word 0
// is a free slot without a block; no slot names block 0.
[[nodiscard]] constexpr Word parked(Word word) { return word & (((Word{1} << 46) - 1) << 16); }

// The header, which is the first word of each bucket. Memory that was never initialised, such as that of a
// node which lost its memory and restarted, holds another word there.
constexpr Word moving_bit = Word{1} << 30;
[[nodiscard]] constexpr Word header_of(std::uint32_t depth, std::uint32_t suffix) {
  return Word{suffix} << 32 | Word{1} << 31 | depth;
}
[[nodiscard]] constexpr bool is_header_of(Word header, std::uint32_t suffix) {
  return header >> 31 == (Word{suffix} << 1 | 1);
}
[[nodiscard]] constexpr std::uint32_t depth_of(Word header) { return bits(header, 0, 8); }
[[nodiscard]] constexpr bool is_moving(Word header) { return (header & moving_bit) != 0; }

// The word of a subtable in the directory: its depth, and the client that has locked it (`nobody`: not
// locked).
constexpr std::uint32_t nobody = ~std::uint32_t{0};
[[nodiscard]] constexpr Word directory_entry(std::uint32_t depth) { return Word{depth + 1} << 8; }
[[nodiscard]] constexpr std::uint32_t entry_depth(Word entry) { return bits(entry, 8, 8) - 1; }
[[nodiscard]] constexpr std::uint32_t locked_by(Word entry) { return bits(entry, 16, 24) - 1; }

// A slot, by its node and the byte offset in that node's table.
struct Slot {
  fabric::NodeId node = 0;
  std::uint64_t offset = 0;
};

// The node, subtable and buckets in which a key may be.
struct Places {
  fabric::NodeId node = 0;
  std::uint32_t fingerprint = 0;
  std::uint32_t suffix = 0;               // the key's hash bits, of which the low ones choose the subtable
  std::array<std::uint64_t, 2> bucket{};  // offsets of the two combined buckets in the key's subtable
};

// Shape of the tables, the same on every node.
struct Shape {
  // depth, max_depth: log2 of the number of subtables, at first and at most
  std::uint32_t nodes = 1, depth = 0, max_depth = 0;
  std::uint64_t groups = 1;            // number of groups of three buckets in each subtable
  bool has_correlated_hashes = false;  // as in SMART's artifact: one hash gives subtable and first bucket
  [[nodiscard]] std::uint32_t subtables() const { return 1U << depth; }
  [[nodiscard]] std::uint64_t subtable_bytes() const { return groups * group_bytes; }
  // The offset of the directory, which lies behind the room for the largest number of subtables.
  [[nodiscard]] std::uint64_t directory_at() const { return subtable_bytes() << max_depth; }
  [[nodiscard]] std::uint64_t entry_at(std::uint32_t suffix) const {
    return directory_at() + 8ULL * (1 + suffix);
  }
  [[nodiscard]] std::uint64_t table_bytes() const { return entry_at(1U << max_depth); }
  [[nodiscard]] Places places(kv::Key key) const {
    const std::uint64_t first = kv::key_digest(key), second = mix64(first ^ 0x5241'4345);
    const std::uint64_t buckets = 2 * groups;
    Places out{.node = static_cast<fabric::NodeId>(scaled(mix64(second), nodes)),
               .fingerprint = static_cast<std::uint32_t>(second >> 56),
               .suffix = static_cast<std::uint32_t>(second)};
    std::array number = {scaled(first, buckets), scaled(mix64(second ^ first), buckets)};
    if (has_correlated_hashes) {
      // As published, one 32-bit number gives subtable, first bucket and fingerprint (its upper bits), so
      // that of a subtable's buckets only one in gcd(subtables, buckets) is the first bucket of any key.
      const auto lower = static_cast<std::uint32_t>(first), high = static_cast<std::uint32_t>(first >> 32);
      out.suffix = lower;
      out.fingerprint = lower >> 24;
      number = {lower % buckets, high % buckets};
    }
    if (number[1] == number[0]) number[1] = (number[0] + 1) % buckets;
    for (std::size_t i = 0; i < number.size(); ++i)
      out.bucket[i] = number[i] / 2 * group_bytes + number[i] % 2 * bucket_bytes;
    return out;
  }
};

// The head of a block.
struct BlockHead {
  std::uint16_t generation = 0, key_bytes = 0;
  std::uint32_t value_bytes = 0;
  std::uint32_t writer = 0;  // number of the client worker in the cluster
  std::uint32_t zero = 0;
};

// Sizes and offsets in a block, which has room for the largest key and value.
struct BlockLayout {
  std::uint32_t key_size = 0, value_size = 0;
  // bytes of the value that memory stores: a simulation may store only the first ones
  std::uint32_t kept = 0;
  static constexpr std::uint32_t header_bytes = sizeof(BlockHead), crc_bytes = 4;
  static_assert(header_bytes == 16);

  [[nodiscard]] std::uint32_t value_at() const { return header_bytes + (key_size + 7) / 8 * 8; }
  [[nodiscard]] std::uint32_t bytes() const {
    return (value_at() + value_size + crc_bytes + block_unit - 1) / block_unit * block_unit;
  }
  [[nodiscard]] std::uint32_t units() const { return bytes() / block_unit; }
  [[nodiscard]] std::uint32_t crc_at() const { return bytes() - crc_bytes; }
  // Number of bytes that the checksum covers: head, key, and the bytes of the value that memory stores.
  [[nodiscard]] std::uint32_t checked_bytes() const { return value_at() + kept; }
  [[nodiscard]] fabric::Elision elision() const {
    const std::uint32_t head = (checked_bytes() + 7) / 8 * 8, tail = 8;
    if (kept == value_size || head + tail >= bytes()) return {};
    return {.entry_bytes = bytes(), .keep_head = head, .keep_tail = tail};
  }
  // Writes a block with its checksum to registered memory that no peer READs yet. `scratch` has
  // checked_bytes().
  void write(fabric::LocalSlice to, const BlockHead& head, kv::Key key, const kv::ValueView& value,
             std::span<std::byte> scratch) const {
    std::ranges::fill(scratch, std::byte{0});
    std::memcpy(scratch.data(), &head, sizeof head);
    std::memcpy(scratch.data() + header_bytes, key.data, key.size);
    const std::uint32_t stored = std::min(value.kept, kept);
    if (stored > 0) std::memcpy(scratch.data() + value_at(), value.data, stored);
    const std::uint32_t sum = crc32c(scratch);
    fabric::copy_to_shared(to.data(), scratch.data(), scratch.size());
    fabric::copy_to_shared(to.region->at(to.offset + crc_at()), &sum, sizeof sum);
  }
  // Copies a block in registered memory into `out`, which has checked_bytes(). False: the checksum is wrong,
  // so the block was read while it was being written.
  [[nodiscard]] bool read(fabric::LocalSlice from, std::span<std::byte> out, BlockHead* head) const {
    std::uint32_t sum = 0;
    fabric::copy_from_shared(out.data(), from.data(), out.size());
    fabric::copy_from_shared(&sum, from.region->at(from.offset + crc_at()), sizeof sum);
    std::memcpy(head, out.data(), sizeof *head);
    return sum == crc32c(out);
  }
  // The key of a block that read() has copied into `bytes`.
  [[nodiscard]] static kv::Key key_in(std::span<const std::byte> bytes, const BlockHead& head) {
    return {bytes.data() + header_bytes, head.key_bytes};
  }
};

}  // namespace loch::race
