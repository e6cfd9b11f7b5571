// Computes the keys, sizes and first values of records.
#include "workloads/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/kv/value.h"
#include "workloads/fnv.h"

namespace loch::workloads {
namespace {

constexpr std::uint32_t text_key_bytes = 24;    // "user" and 20 digits
constexpr std::uint32_t short_text_bytes = 11;  // 64 bits in characters of 6 bits each
constexpr std::uint32_t word_key_bytes = 8;
constexpr int size_filler = '.';

// The eight decimal digits of a number below 10^8 as text, the first digit in the lowest byte.
std::uint64_t eight_digits(std::uint32_t number) {
  // Splits the number: at first each half of the word has four of its digits, then each quarter two, then
  // each byte one.
  const std::uint64_t fours = number / 10'000 | std::uint64_t{number % 10'000} << 32;
  const std::uint64_t hundreds = fours * 10'486 >> 20 & 0x7F'0000'007F;
  const std::uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const std::uint64_t tens = twos * 103 >> 10 & 0x000F'000F'000F'000F;
  return (tens | (twos - tens * 10) << 8) | 0x3030'3030'3030'3030;
}

constexpr std::size_t most_digits = 24;  // three words; a number has at most 20 digits
struct Decimal {
  std::array<char, most_digits> text;
  std::size_t first;  // index of the first digit that is not a leading zero
};

// The decimal digits of a number. As std::to_chars, with a third of its instructions.
Decimal decimal(std::uint64_t number) {
  constexpr std::uint64_t half = 100'000'000;  // 8 digits
  const std::uint64_t upper = number / (half * half), lower = number % (half * half);
  const std::uint64_t words[] = {eight_digits(static_cast<std::uint32_t>(upper)),
                                 eight_digits(static_cast<std::uint32_t>(lower / half)),
                                 eight_digits(static_cast<std::uint32_t>(lower % half))};
  Decimal out;
  std::memcpy(out.text.data(), words, sizeof words);
  std::size_t word = 0;
  constexpr std::uint64_t zeros = 0x3030'3030'3030'3030;
  while (word < 2 && words[word] == zeros) ++word;
  // the last digit is written even if it is 0
  const std::uint64_t digits = (words[word] ^ zeros) | (word == 2 ? std::uint64_t{1} << 56 : 0);
  out.first = 8 * word + static_cast<std::size_t>(std::countr_zero(digits)) / 8;
  return out;
}

}  // namespace

Result<Records> Records::make(const Shape& shape) {
  if (shape.key_size == 0) return fail(ErrorCode::invalid_argument, "key-size: 0 bytes; expected at least 1");
  if (shape.value_size == 0)
    return fail(ErrorCode::invalid_argument, "value-size: 0 bytes; expected at least 1");
  LOCH_CHECK(shape.most >= shape.preloaded, "{} records at most, {} preloaded", shape.most, shape.preloaded);
  if (shape.key_size < word_key_bytes && shape.most > (std::uint64_t{1} << (8 * shape.key_size))) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("key-size: {} bytes cannot tell {} keys apart", shape.key_size, shape.most));
  }
  if (shape.key_sizes && shape.key_sizes->least() < word_key_bytes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("key-size-min: keys of different sizes have at least {} bytes, and not {}",
                            word_key_bytes, shape.key_sizes->least()));
  }
  if (shape.zero_padding > 20 && shape.has_key_sizes()) {
    return fail(ErrorCode::invalid_argument, "zeropadding: goes with keys of one size");
  }
  if (shape.zero_padding + 4 > shape.key_size && shape.key_size >= text_key_bytes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("zeropadding: {} digits do not fit a key of {} bytes", shape.zero_padding,
                            shape.key_size));
  }
  return Records(shape);
}

void Records::key(std::uint64_t i, std::byte* out) const {
  const std::uint32_t size = key_size(i);
  std::memset(out, shape_.has_key_sizes() ? size_filler : 0, size);
  if (size >= text_key_bytes) {
    const std::uint64_t number = shape_.order == KeyOrder::hashed ? fnv64(i) : i;
    constexpr std::string_view prefix = "user";
    const Decimal digits = decimal(number);
    const std::size_t count = most_digits - digits.first;
    const std::size_t zeros = shape_.zero_padding > count ? shape_.zero_padding - count : 0;
    std::memcpy(out, prefix.data(), prefix.size());
    std::memset(out + prefix.size(), '0', zeros);
    std::memcpy(out + prefix.size() + zeros, digits.text.data() + digits.first, count);
    return;
  }
  const std::uint64_t number = mix64(i);
  if (size >= short_text_bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (std::uint32_t at = 0; at < short_text_bytes; ++at) {
      out[at] = static_cast<std::byte>(digits[number >> (6 * at) & 63]);
    }
  } else if (size >= word_key_bytes) {
    std::memcpy(out, &number, word_key_bytes);
  } else {
    std::memcpy(out, &i, size);
  }
}

std::uint32_t Records::value_size(std::uint64_t i, std::uint32_t largest) const {
  if (shape_.table) return shape_.table->value_bytes.empty() ? largest : shape_.table->value_bytes[i];
  if (!shape_.value_sizes) return largest;
  std::vector<std::byte> text(shape_.key_size);
  key(i, text.data());
  return version_size(kv::key_digest({text.data(), key_size(i)}), kv::initial_writer, 0);
}

std::uint32_t Records::drawn_size(std::uint64_t key_digest, std::uint32_t writer,
                                  std::uint64_t sequence) const {
  const kv::ValueStamp named =
      kv::narrowed({.key_digest = key_digest, .writer = writer, .sequence = sequence});
  return shape_.value_sizes->of(mix64(key_digest ^ mix64(named.sequence << 16 | named.writer)));
}

bool Records::is_size_right(const kv::ValueReading& reading, std::uint32_t size,
                            std::uint64_t key_digest) const {
  // In a replayed trace a value may have any size within the trace's bounds; a value of at least 8 bytes also
  // contains its own length (common/kv/value.h).
  if (shape_.table) return size >= shape_.table->value_least && size <= shape_.table->value_most;
  if (!shape_.value_sizes) return size == shape_.value_size;
  if (reading.verdict == kv::ValueVerdict::unnamed)
    return size >= shape_.value_sizes->least() && size <= shape_.value_sizes->most();
  return size == drawn_size(key_digest, reading.stamp.writer, reading.stamp.sequence);
}

void Records::value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const {
  std::array<std::byte, 256> small{};
  std::vector<std::byte> large;
  std::byte* text = small.data();
  if (shape_.key_size > small.size()) {
    large.resize(shape_.key_size);
    text = large.data();
  }
  key(i, text);
  const std::uint64_t digest = kv::key_digest({text, key_size(i)});
  const std::uint32_t size =
      shape_.table ? value_size(i, shape_.value_size) : version_size(digest, kv::initial_writer, 0);
  kv::write_value({digest, kv::initial_writer, 0, size}, out, bytes);
}

std::string_view key_name(kv::Key key, std::string& place) {
  std::uint32_t size = key.size;
  std::uint64_t word = 0;
  for (; size >= sizeof word; size -= sizeof word) {
    std::memcpy(&word, key.data + size - sizeof word, sizeof word);
    if (word != 0) break;
  }
  while (size > 0 && key.data[size - 1] == std::byte{0}) --size;
  if (size == 0) return "0x00";
  const std::string_view text(reinterpret_cast<const char*>(key.data), size);
  const auto is_plain = [](char c) { return c >= 0x21 && c <= 0x7E && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain)) return text;
  place = "0x";
  for (std::uint32_t j = 0; j < key.size; ++j)
    place += fmt::format("{:02x}", std::to_integer<unsigned>(key.data[j]));
  return place;
}

std::string key_name(kv::Key key) {
  std::string place;
  return std::string(key_name(key, place));
}

}  // namespace loch::workloads
