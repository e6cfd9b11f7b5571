// The bytes of a log, little-endian (docs/formats.md has the same).
//
//   file    | "LOCHPLF2" | node u32 | server u32 | nodes u32 | servers u32 | key size u32 | 0 u32 | seed u64
//   |
//           | crc64 |
//   record  | mark u32 | key len u32 | value len u32 | check u32 | number u64 | key | value | crc64 |
//
// The mark is "PLFP" (PUT) or "PLFD" (DELETE), or "PLSP" or "PLSD" if the disk had all of the file before
// this record was written (mode fsync). Both checksums of a record begin with the log's salt, which is the
// header's checksum, plus the record's offset: a record is one only in this log and at this place, so that
// neither a value that holds the bytes of a record nor one of another log is taken for one. The check is of
// the head alone (with 0 in the check's place), so that a length is believed before the bytes that it covers
// are read; the crc64 is of head, key and value. Records are numbered from 1, without a gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace loch::pilaf {

using LogBytes = std::span<const std::byte>;

// Identifies the deployment that wrote the log; the log of another one is refused.
struct LogOwner {
  std::uint32_t node = 0, server = 0, nodes = 1, servers = 1, key_size = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const LogOwner&, const LogOwner&) = default;
};

constexpr std::size_t log_header_bytes = 48;
[[nodiscard]] std::vector<std::byte> log_header(const LogOwner& owner);
// The kind of a file's first log_header_bytes.
enum class LogHeader : std::uint8_t {
  right,    // the header of this owner's log
  other,    // the header of another owner's log
  older,    // of another version of the format
  partial,  // bytes of it are 0: it never reached the disk as a whole
  broken,   // not a header of a log
};
[[nodiscard]] LogHeader compare_header(LogBytes bytes, const LogOwner& owner);
[[nodiscard]] std::uint64_t log_salt(const LogOwner& owner);

struct RecordHead {
  static constexpr std::uint32_t put_mark = 0x50464C50, remove_mark = 0x44464C50;  // "PLFP", "PLFD"
  static constexpr std::uint32_t synced_bits = 0x00150000;                         // 'F' to 'S'
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
  bool follows_synced = false;  // the disk had all that is in front of it
  std::uint64_t number = 0;
  LogBytes key, value;  // in the bytes that it was read from
  std::uint64_t bytes = 0;
};

// Appends a record, which will lie at offset `at` of the file, to `to`.
void add_record(std::vector<std::byte>& to, const Record& record, std::uint64_t at, std::uint64_t salt);
// The head at the front of `rest`, which lies at `at`; none: there is none.
[[nodiscard]] std::optional<RecordHead> parse_head(LogBytes rest, std::uint64_t at, std::uint64_t salt);
// The record at the front of `rest`; none: it is not there, not whole, or not what was written.
[[nodiscard]] std::optional<Record> parse_record(LogBytes rest, std::uint64_t at, std::uint64_t salt);

}  // namespace loch::pilaf
