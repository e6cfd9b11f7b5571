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

// The writer of the preloaded records.
constexpr std::uint32_t initial_writer = 0xFFFF'FFFF;
// What an elided region must keep of each value for the stamp to survive.
constexpr std::uint32_t value_stamp_bytes = 32;

struct ValueStamp {
  std::uint64_t key_digest = 0;
  std::uint32_t writer = 0;    // global client number, or initial_writer
  std::uint64_t sequence = 0;  // the writer's own count; 0 for a preloaded record
  std::uint32_t length = 0;    // bytes of the whole value
};

// The part of a stamp that fits into a value of fewer than 32 bytes: the low bits of writer and sequence.
[[nodiscard]] ValueStamp narrowed(ValueStamp stamp);

// A 64-bit digest of the key's bytes.
[[nodiscard]] std::uint64_t key_digest(Key key);

// Writes the first `bytes` (<= stamp.length) bytes of the value that the stamp describes.
void write_value(const ValueStamp& stamp, std::byte* out, std::uint32_t bytes);

enum class ValueVerdict : std::uint8_t {
  verified,    // every byte that is present is what the stamp says
  stamp_only,  // the stamp is right; the rest was elided
  unnamed,     // too small to name a writer
  corrupt,     // another key's value, torn, or not a value at all
};

struct ValueReading {
  ValueVerdict verdict = ValueVerdict::corrupt;
  ValueStamp stamp;  // verified and stamp_only; small values: writer and sequence modulo their width
};

// Judges a value that a GET of the key with this digest returned. `full` false looks at the stamp
// alone.
[[nodiscard]] ValueReading read_value(ValueView value, std::uint64_t key_digest, bool full);

// What a history calls the value (common/check/history.h): "init" for a preloaded one,
// "w<writer>.<sequence>", or "corrupt:<bytes in hex>" where the bytes name nobody. Values under 8
// bytes are named by their bytes in hex, preloaded ones too.
[[nodiscard]] std::string value_name(ValueView value);
[[nodiscard]] std::string value_name(const ValueStamp& stamp);

}  // namespace loch::kv
