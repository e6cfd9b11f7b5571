// Byte layouts that clients READ (docs/formats.md), little-endian. Buckets and roots carry a checksum, their
// guard, by which a client detects that it READ a half-written one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace loch::pilaf {

// A hash table entry, packed into 53 bytes:
//
//   0          8            16        24        32                  40
//   | key at u64 | value at u64 | key len u64 | val len u64 | extent's crc64 u64 | capacity u32 |
//
//   44                          45
//   | in use 1 bit, hash 7 bits | guard u64 |
//
// guard = crc64 of the first 45 bytes. `key at` and `value at` are offsets into the shard's extents region.
struct Bucket {
  std::uint64_t key_at = 0, value_at = 0, key_length = 0, value_length = 0;
  std::uint64_t extent_crc = 0;
  // Size in bytes of the extent (key and value), which a GET READs: 1.25 times what was first stored there.
  std::uint32_t capacity = 0;
  bool is_used = false;
  std::uint8_t hash = 0;  // 7 bits of the key's hash

  // Value of `hash` in a closed bucket: its table is no longer in use, and a client has to READ the root (the
  // table's descriptor) again.
  static constexpr std::uint8_t closed_hash = 0x7F;
  [[nodiscard]] bool is_closed() const { return !is_used && hash == closed_hash; }
  [[nodiscard]] static Bucket closed() { return {.hash = closed_hash}; }
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

constexpr std::uint32_t bucket_bytes = 53, bucket_guard_at = 45;
using BucketBytes = std::array<std::byte, bucket_bytes>;
[[nodiscard]] BucketBytes encode(const Bucket& bucket);
// Decodes a bucket; returns false if its guard (checksum) is wrong, with `out` set nevertheless.
[[nodiscard]] bool decode(const std::byte* bytes, Bucket* out);

// Describes where a shard's table lies; stored in the first bytes of its table region.
//
//   0        8       12     16       24       32              40
//   | version u64 | epoch u32 | 0 u32 | table at u64 | slots u64 | extents bytes u64 | guard u64 |
struct Root {
  std::uint64_t version = 0;  // odd while entries are being moved
  std::uint32_t epoch = 0;    // incremented when the table or the memory for keys and values grows
  std::uint64_t table_at = 0, slots = 0;
  std::uint64_t extents_bytes = 0;
  friend bool operator==(const Root&, const Root&) = default;
};
constexpr std::uint32_t root_bytes = 48, root_guard_at = 40;
using RootBytes = std::array<std::byte, root_bytes>;
[[nodiscard]] RootBytes encode(const Root& root);
[[nodiscard]] bool decode(const std::byte* bytes, Root* out);

// Messages, with a key of k and a value of v bytes. The request's number and sender are in the immediate
// (common/rpc/message_channel.h).
//   PUT    | key len u64 | value len u64 | crc64 | key | value |     24 + k + v bytes
//   INSERT like PUT
//   DELETE | key len u64 | key |                                      8 + k bytes
//   GET    | key len u64 | key |                                      8 + k bytes
//   reply  | status u32 | epoch u32 |                                 8 bytes
//   GET's  | status u32 | value len u32 | value |                     8 + v bytes
enum class MessageOp : std::uint8_t { put = 1, remove = 2, get = 3, emulated_put = 4, insert_if_absent = 5 };
enum class ReplyStatus : std::uint32_t {
  ok = 0,
  not_found = 1,
  table_full = 2,
  // the change was not applied; writing the log failed, so that its record may still appear after a restart
  not_logged = 3,
  log_closed = 4,  // the change was neither applied nor logged: writing the log failed earlier
  // the change was not applied: the node restarted with zeroed memory and was not declared lost yet
  lost = 5,
  exists = 6,  // an INSERT was not applied, because the key is present
};
constexpr std::uint32_t put_head = 24, key_head = 8, reply_head = 8;

}  // namespace loch::pilaf
