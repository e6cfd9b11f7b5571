// Writes values that name their writer, and checks values that were read.
#include "common/kv/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "common/base/check.h"
#include "common/base/rng.h"

namespace loch::kv {
namespace {

struct LongStamp {
  std::uint64_t key_digest;
  std::uint32_t writer;
  std::uint32_t length;
  std::uint64_t sequence;
  std::uint64_t checksum;
};
static_assert(sizeof(LongStamp) == value_stamp_bytes);
static_assert(offsetof(LongStamp, sequence) == 16 && offsetof(LongStamp, checksum) == 24);

constexpr std::uint32_t word_bytes = 8;
constexpr int small_writer_bits = 16, small_sequence_bits = 28;
constexpr int small_check_shift = small_writer_bits + small_sequence_bits;
constexpr std::uint64_t small_writer_mask = (std::uint64_t{1} << small_writer_bits) - 1;
constexpr std::uint64_t small_sequence_mask = (std::uint64_t{1} << small_sequence_bits) - 1;

std::uint64_t checksum(const ValueStamp& stamp) {
  std::uint64_t h = mix64(stamp.key_digest);
  h = mix64(h ^ (std::uint64_t{stamp.writer} << 32 | stamp.length));
  return mix64(h ^ stamp.sequence);
}

std::uint64_t small_word(const ValueStamp& stamp) {
  const ValueStamp narrow = narrowed(stamp);
  return narrow.writer | narrow.sequence << small_writer_bits | checksum(narrow) << small_check_shift;
}

// Writes bytes [from, bytes) of a value whose filler is seeded by `seed`; the filler's word j starts at byte
// from + 8·j.
void fill(std::uint64_t seed, std::byte* out, std::uint32_t from, std::uint32_t bytes) {
  std::uint64_t j = 0;
  for (; from + word_bytes <= bytes; ++j, from += word_bytes) {
    const std::uint64_t word = mix64(seed + j);
    std::memcpy(out + from, &word, word_bytes);
  }
  const std::uint64_t word = mix64(seed + j);
  if (from < bytes) std::memcpy(out + from, &word, bytes - from);
}

bool is_filled(std::uint64_t seed, const std::byte* data, std::uint32_t from, std::uint32_t bytes) {
  std::uint64_t j = 0;
  for (; from + word_bytes <= bytes; ++j, from += word_bytes) {
    std::uint64_t word;
    std::memcpy(&word, data + from, word_bytes);
    if (word != mix64(seed + j)) return false;
  }
  const std::uint64_t word = mix64(seed + j);
  return from >= bytes || std::memcmp(data + from, &word, bytes - from) == 0;
}

LongStamp long_stamp(const ValueStamp& stamp) {
  return {stamp.key_digest, stamp.writer, stamp.length, stamp.sequence, checksum(stamp)};
}

ValueStamp from_small(std::uint64_t word, std::uint64_t digest, std::uint32_t length) {
  ValueStamp stamp;
  stamp.key_digest = digest;
  stamp.writer = static_cast<std::uint32_t>(word & small_writer_mask);
  stamp.sequence = word >> small_writer_bits & small_sequence_mask;
  stamp.length = length;
  return stamp;
}

}  // namespace

ValueStamp narrowed(ValueStamp stamp) {
  stamp.writer = static_cast<std::uint32_t>(stamp.writer & small_writer_mask);
  stamp.sequence &= small_sequence_mask;
  return stamp;
}

std::uint64_t key_digest(Key key) {
  std::uint64_t h = mix64(key.size);
  std::uint32_t at = 0;
  for (; at + word_bytes <= key.size; at += word_bytes) {
    std::uint64_t word;
    std::memcpy(&word, key.data + at, word_bytes);
    h = mix64(h ^ word);
  }
  if (at < key.size) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data + at, key.size - at);
    h = mix64(h ^ word);
  }
  return h;
}

void write_value(const ValueStamp& stamp, std::byte* out, std::uint32_t bytes) {
  LOCH_CHECK_LE(bytes, stamp.length);
  if (stamp.length >= value_stamp_bytes) {
    const LongStamp head = long_stamp(stamp);
    std::memcpy(out, &head, std::min(bytes, value_stamp_bytes));
    fill(head.checksum, out, value_stamp_bytes, bytes);
    return;
  }
  const std::uint64_t word = stamp.length >= word_bytes ? small_word(stamp) : checksum(stamp);
  std::memcpy(out, &word, std::min(bytes, word_bytes));
  fill(word, out, word_bytes, bytes);
}

ValueReading read_value(ValueView value, std::uint64_t digest, bool full) {
  ValueReading reading;
  if (value.size < word_bytes) {
    reading.verdict = ValueVerdict::unnamed;
    return reading;
  }
  if (value.size < value_stamp_bytes) {
    if (value.kept < word_bytes) return reading;
    std::uint64_t word;
    std::memcpy(&word, value.data, word_bytes);
    reading.stamp = from_small(word, digest, value.size);
    if (small_word(reading.stamp) != word) return reading;
    const bool whole = full && value.kept == value.size;
    if (whole && !is_filled(word, value.data, word_bytes, value.size)) return reading;
    reading.verdict = whole ? ValueVerdict::verified : ValueVerdict::stamp_only;
    return reading;
  }
  if (value.kept < value_stamp_bytes) return reading;
  LongStamp head;
  std::memcpy(&head, value.data, sizeof head);
  reading.stamp = {head.key_digest, head.writer, head.sequence, head.length};
  if (head.key_digest != digest || head.length != value.size || head.checksum != checksum(reading.stamp)) {
    return reading;
  }
  if (full && !is_filled(head.checksum, value.data, value_stamp_bytes, value.kept)) return reading;
  reading.verdict = full && value.kept == value.size ? ValueVerdict::verified : ValueVerdict::stamp_only;
  return reading;
}

std::string value_name(const ValueStamp& stamp) {
  if (stamp.length < word_bytes) {
    std::array<std::byte, word_bytes> bytes{};
    write_value(stamp, bytes.data(), stamp.length);
    return value_name(ValueView{bytes.data(), stamp.length, stamp.length});
  }
  const ValueStamp shown = stamp.length < value_stamp_bytes ? narrowed(stamp) : stamp;
  const bool is_initial =
      stamp.length < value_stamp_bytes ? shown.writer == small_writer_mask : shown.writer == initial_writer;
  if (is_initial) return "init";
  std::array<char, 48> text;
  char* const most = text.data() + text.size();
  text[0] = 'w';
  char* const dot = std::to_chars(text.data() + 1, most, shown.writer).ptr;
  *dot = '.';
  return {text.data(), std::to_chars(dot + 1, most, shown.sequence).ptr};
}

std::string value_name(ValueView value) {
  if (value.size >= value_stamp_bytes && value.kept >= value_stamp_bytes) {
    LongStamp head;
    std::memcpy(&head, value.data, sizeof head);
    const ValueStamp stamp{head.key_digest, head.writer, head.sequence, head.length};
    if (head.length == value.size && head.checksum == checksum(stamp)) return value_name(stamp);
  } else if (value.size >= word_bytes && value.size < value_stamp_bytes && value.kept >= word_bytes) {
    std::uint64_t word;
    std::memcpy(&word, value.data, word_bytes);
    return value_name(from_small(word, 0, value.size));
  }
  std::string hex = value.size < word_bytes ? "x" : "corrupt:";
  for (std::uint32_t i = 0; i < std::min(value.kept, value_stamp_bytes); ++i) {
    hex += fmt::format("{:02x}", std::to_integer<unsigned>(value.data[i]));
  }
  return hex;
}

}  // namespace loch::kv
