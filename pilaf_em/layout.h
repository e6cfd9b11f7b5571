// The byte layouts that clients read by RDMA (docs/formats.md), little-endian. Both verify
// themselves: what was read half-written fails its guard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace loch::pilaf {

// A hash table entry, packed:
//
//   0          8            16        24        32            40           44              45
//   | key at u64 | value at u64 | key len u64 | val len u64 | crc64 of extent | capacity u32 | in use 1, hash
//   7 | guard u64 |
//
// guard = crc64 of the first 45 bytes. Offsets are into the shard's extents region.
struct Bucket {
  std::uint64_t key_at = 0, value_at = 0, key_length = 0, value_length = 0;
  std::uint64_t extent_crc = 0;
  std::uint32_t capacity = 0;  // bytes to READ: 1.25 times what was first stored in the extent
  bool is_used = false;
  std::uint8_t hash = 0;  // 7 bits of the key's

  // Says that the table is no longer the table: ask the root.
  static constexpr std::uint8_t closed_hash = 0x7F;
  [[nodiscard]] bool is_closed() const { return !is_used && hash == closed_hash; }
  [[nodiscard]] static Bucket closed() { return {.hash = closed_hash}; }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

constexpr std::uint32_t bucket_bytes = 53, bucket_guard_at = 45;
using BucketBytes = std::array<std::byte, bucket_bytes>;
[[nodiscard]] BucketBytes encode(const Bucket& bucket);
// False: the guard is wrong. `out` is set all the same.
[[nodiscard]] bool decode(const std::byte* bytes, Bucket* out);

// Where a shard's table lies now; the first bytes of its table region.
//
//   0        8       12     16       24       32              40
//   | version u64 | epoch u32 | 0 u32 | table at u64 | slots u64 | extents bytes u64 | guard u64 |
struct Root {
  std::uint64_t version = 0;  // odd while entries are being moved
  std::uint32_t epoch = 0;    // grows when the table or the extents grow
  std::uint64_t table_at = 0, slots = 0;
  std::uint64_t extents_bytes = 0;
  friend bool operator==(const Root&, const Root&) = default;
};
constexpr std::uint32_t root_bytes = 48, root_guard_at = 40;
using RootBytes = std::array<std::byte, root_bytes>;
[[nodiscard]] RootBytes encode(const Root& root);
[[nodiscard]] bool decode(const std::byte* bytes, Root* out);

// Messages (what identifies them is in the immediate, common/rpc/message_channel.h).
//   PUT    | key len u64 | value len u64 | crc64 | key | value |     24 + k + v
//   INSERT as PUT
//   DELETE | key len u64 | key |                                      8 + k
//   GET    | key len u64 | key |                                      8 + k
//   reply  | status u32 | epoch u32 |                                 8
//   GET's  | status u32 | value len u32 | value |                     8 + v
enum class MessageOp : std::uint8_t { put = 1, remove = 2, get = 3, emulated_put = 4, insert_if_absent = 5 };
enum class ReplyStatus : std::uint32_t {
  ok = 0,
  not_found = 1,
  table_full = 2,
  not_logged = 3,  // not done; the log's file failed, and may hold it all the same after a restart
  log_closed = 4,  // not done, and in no log: its file had failed before
  lost = 5,        // not done: the node came back with zeroed memory and has not been declared lost
  exists = 6,      // INSERT, not done: the key is there
};
constexpr std::uint32_t put_head = 24, key_head = 8, reply_head = 8;

}  // namespace loch::pilaf
