// Values that name their writer, so that every GET can be verified.
//
// From 32 bytes on, a value begins with its stamp; the rest is a cheap function of the stamp:
//
//    0        8        12       16         24         32
//    | key    | writer | length | sequence | checksum | word j = mix64(checksum + j) …
//    | digest | u32    | u32    | u64      | u64      |
//
// A value of 8 … 31 bytes begins with one word instead: writer (16 bits) | sequence (28) | check
// (20), where check covers the key, the length, writer and sequence; the rest is again a function
// of that word. A smaller value is the low bytes of a hash of the same fields: enough to tell two
// writes apart, not to name the writer. All integers are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/kv/protocol.h"

namespace loch::kv {

// the writer of the preloaded records
constexpr std::uint32_t initial_writer = 0xFFFF'FFFF;
// size in bytes of the stamp at the beginning of each value; memory that stores only a part of each value
// stores the stamp
constexpr std::uint32_t value_stamp_bytes = 32;

struct ValueStamp {
  std::uint64_t key_digest = 0;
  std::uint32_t writer = 0;    // identifies the writing client in the cluster, or initial_writer
  std::uint64_t sequence = 0;  // identifies the value among those of its writer; 0 for a preloaded record
  std::uint32_t length = 0;    // bytes of the whole value
};

// What a value of fewer than 32 bytes can hold of a stamp: only the low bits of writer and sequence.
[[nodiscard]] ValueStamp narrowed(ValueStamp stamp);

// A 64-bit digest of the key's bytes.
[[nodiscard]] std::uint64_t key_digest(Key key);

// Writes the first `bytes` (<= stamp.length) bytes of the value that the stamp describes.
void write_value(const ValueStamp& stamp, std::byte* out, std::uint32_t bytes);

enum class ValueVerdict : std::uint8_t {
  verified,    // every byte of the value was checked and is right
  stamp_only,  // the stamp is right, but other bytes of the value are not stored or were not checked
  unnamed,     // the value is too small to name its writer
  corrupt,     // a value of another key, a torn value, or bytes that are no value
};

struct ValueReading {
  ValueVerdict verdict = ValueVerdict::corrupt;
  // set if the verdict is verified or stamp_only; `writer` and `sequence` of a small value are truncated
  ValueStamp stamp;
};

// Checks a value that a GET of the key with this digest returned. If `full` is false, only the stamp is
// checked.
[[nodiscard]] ValueReading read_value(ValueView value, std::uint64_t key_digest, bool full);

// The name of the value in a history (common/check/history.h): "init" for a preloaded one,
// "w<writer>.<sequence>", or "corrupt:<bytes in hex>" if the bytes name no writer. Values under 8 bytes,
// preloaded ones included, are named by their bytes in hex.
[[nodiscard]] std::string value_name(ValueView value);
[[nodiscard]] std::string value_name(const ValueStamp& stamp);

}  // namespace loch::kv
