// The byte format of a log, little-endian (docs/formats.md).
//
//   file    | "LOCHPLF2" | node u32 | server u32 | nodes u32 | servers u32 | key size u32 |
//           | 0 u32 | seed u64 | crc64 |
//   record  | mark u32 | key len u32 | value len u32 | check u32 | number u64 | key | value | crc64 |
//
// The mark is "PLFP" (PUT) or "PLFD" (DELETE); it is "PLSP" or "PLSD" if everything before this record was on
// disk when the record was written (mode fsync). Both checksums of a record start with the log's salt, which
// is the header's checksum, plus the record's offset. A record is therefore valid only in its own log at its
// own offset, and bytes of a record inside a value, or from another log, are not taken for one. `check`
// covers the head alone (with 0 in its own place), so that lengths are verified before the data that they
// cover is read; crc64 covers head, key and value. Records are numbered from 1 without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace loch::pilaf {

using LogBytes = std::span<const std::byte>;

// Identifies the deployment and server that wrote a log; a log of another owner is refused.
struct LogOwner {
  std::uint32_t node = 0, server = 0, nodes = 1, servers = 1, key_size = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const LogOwner&, const LogOwner&) = default;
};

constexpr std::size_t log_header_bytes = 48;
[[nodiscard]] std::vector<std::byte> log_header(const LogOwner& owner);
// The result of comparing a file's first log_header_bytes with an owner's header.
enum class LogHeader : std::uint8_t {
  right,    // this owner's header
  other,    // the header of another owner's log
  older,    // a header of another version of the format
  partial,  // some of its bytes are 0, because it did not reach the disk completely
  broken,   // not the header of a log
};
[[nodiscard]] LogHeader compare_header(LogBytes bytes, const LogOwner& owner);
[[nodiscard]] std::uint64_t log_salt(const LogOwner& owner);

struct RecordHead {
  // The marks of records of a PUT, "PLFP", and of a DELETE, "PLFD", as little-endian words.
  static constexpr std::uint32_t put_mark = 0x50464C50, remove_mark = 0x44464C50;
  static constexpr std::uint32_t synced_bits = 0x00150000;  // a mark XOR these bits has 'S' in place of 'F'
  std::uint32_t mark = 0, key_bytes = 0, value_bytes = 0, check = 0;
  std::uint64_t number = 0;
  [[nodiscard]] std::uint64_t whole_bytes() const;
};
static_assert(sizeof(RecordHead) == 24 && offsetof(RecordHead, number) == 16);
constexpr std::size_t record_overhead = sizeof(RecordHead) + sizeof(std::uint64_t);
inline std::uint64_t RecordHead::whole_bytes() const {
  return record_overhead + std::uint64_t{key_bytes} + value_bytes;
}

struct Record {
  bool is_put = false;
  bool follows_synced = false;  // true: everything before this record was on disk when it was written
  std::uint64_t number = 0;
  LogBytes key, value;  // views into the bytes from which the record was parsed
  std::uint64_t bytes = 0;
};

// Appends to `to` the bytes of a record that will lie at file offset `at`.
void add_record(std::vector<std::byte>& to, const Record& record, std::uint64_t at, std::uint64_t salt);
// Parses the record head at the beginning of `rest`, which lies at offset `at`; nullopt if no valid head is
// there.
[[nodiscard]] std::optional<RecordHead> parse_head(LogBytes rest, std::uint64_t at, std::uint64_t salt);
// Parses the record at the beginning of `rest`; nullopt if it is missing, incomplete or damaged.
[[nodiscard]] std::optional<Record> parse_record(LogBytes rest, std::uint64_t at, std::uint64_t salt);

}  // namespace loch::pilaf
