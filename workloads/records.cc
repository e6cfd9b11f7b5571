#include "workloads/records.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/kv/value.h"
#include "workloads/fnv.h"

namespace loch::workloads {
namespace {

constexpr std::uint32_t text_key_bytes = 24;    // "user" and 20 digits
constexpr std::uint32_t short_text_bytes = 11;  // 64 bits, 6 a character
constexpr std::uint32_t word_key_bytes = 8;

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
  if (shape.zero_padding + 4 > shape.key_size && shape.key_size >= text_key_bytes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("zeropadding: {} digits do not fit a key of {} bytes", shape.zero_padding,
                            shape.key_size));
  }
  return Records(shape);
}

void Records::key(std::uint64_t i, std::byte* out) const {
  std::memset(out, 0, shape_.key_size);
  if (shape_.key_size >= text_key_bytes) {
    const std::uint64_t number = shape_.order == KeyOrder::hashed ? fnv64(i) : i;
    constexpr std::string_view prefix = "user";
    std::array<char, std::numeric_limits<std::uint64_t>::digits10 + 1> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    const auto count = static_cast<std::size_t>(end - digits.data());
    const std::size_t zeros = shape_.zero_padding > count ? shape_.zero_padding - count : 0;
    std::memcpy(out, prefix.data(), prefix.size());
    std::memset(out + prefix.size(), '0', zeros);
    std::memcpy(out + prefix.size() + zeros, digits.data(), count);
    return;
  }
  const std::uint64_t number = mix64(i);
  if (shape_.key_size >= short_text_bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (std::uint32_t at = 0; at < short_text_bytes; ++at) {
      out[at] = static_cast<std::byte>(digits[number >> (6 * at) & 63]);
    }
  } else if (shape_.key_size >= word_key_bytes) {
    std::memcpy(out, &number, word_key_bytes);
  } else {
    std::memcpy(out, &i, shape_.key_size);
  }
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
  kv::write_value({kv::key_digest({text, shape_.key_size}), kv::initial_writer, 0, shape_.value_size}, out,
                  bytes);
}

std::string key_name(kv::Key key) {
  std::uint32_t size = key.size;
  while (size > 0 && key.data[size - 1] == std::byte{0}) --size;
  std::string text;
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto c = std::to_integer<unsigned char>(key.data[i]);
    if (c < 0x21 || c > 0x7E || c == '"' || c == '\\') {
      text = "0x";
      for (std::uint32_t j = 0; j < key.size; ++j)
        text += fmt::format("{:02x}", std::to_integer<unsigned>(key.data[j]));
      return text;
    }
    text += static_cast<char>(c);
  }
  return text.empty() ? "0x00" : text;
}

}  // namespace loch::workloads
