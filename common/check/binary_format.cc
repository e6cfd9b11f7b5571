// Encodes and decodes the operations of binary histories.
#include "common/check/binary_format.h"

#include <xxhash.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "common/base/rng.h"

namespace loch::check {
namespace {

constexpr std::size_t varint_bytes_max = 10;
// Upper bound in bytes of an encoded operation without the text of its key and value: a tag of one byte, one
// varint each for the times of invocation and return, and up to three varints each for key and value.
constexpr std::size_t operation_bytes_most = 1 + 4 * varint_bytes_max + 4 * varint_bytes_max;
// An operation's tag byte: the kind in bits 0 to 2, the outcome in bits 3 to 5, bit 6 set if the operation
// has a value, and bit 7 set if it has a time of return.
constexpr unsigned outcome_shift = 3, value_bit = 1U << 6, return_bit = 1U << 7;
// The form in which the name of a key or value is encoded, in the two low bits of the name's first varint: as
// text, or as the numbers in a name such as "user12" or "w3.17", or as the preloaded value. For text, the
// higher bits are its length in bytes.
constexpr std::uint64_t text_form = 0, user_form = 1, version_form = 2, init_form = 3;
constexpr std::string_view user_prefix = "user";
constexpr std::size_t user_bytes = sizeof(std::uint64_t);

std::byte* put_varint(std::uint64_t number, std::byte* out) {
  for (; number >= 0x80; number >>= 7) *out++ = static_cast<std::byte>(number | 0x80);
  *out++ = static_cast<std::byte>(number);
  return out;
}

// Maps signed to unsigned numbers so that a number near 0, positive or negative, becomes a small one, which
// takes few bytes as a varint.
std::uint64_t zigzag(std::int64_t number) {
  return (static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63);
}
std::int64_t unzigzag(std::uint64_t number) {
  return static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1);
}
std::int64_t difference(Nanos a, Nanos b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
Nanos sum(Nanos a, std::int64_t b) {
  return static_cast<Nanos>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

constexpr std::size_t digits_most = 20;  // of a decimal number of 64 bits

// Reads a decimal number without leading zeros, so that to_chars() gives the same digits again; nothing for
// any other text.
std::optional<std::uint64_t> canonical(std::string_view digits) {
  if (digits.empty() || (digits.front() == '0' && digits.size() > 1)) return std::nullopt;
  if (digits.size() > digits_most) return std::nullopt;
  std::uint64_t number = 0;
  for (const char digit : digits.substr(0, digits_most - 1)) {
    const auto value = static_cast<unsigned>(static_cast<unsigned char>(digit)) - '0';
    if (value > 9) return std::nullopt;
    number = number * 10 + value;
  }
  if (digits.size() < digits_most) return number;
  // Only the last of 20 digits can make the number too large.
  const auto last = static_cast<unsigned>(static_cast<unsigned char>(digits.back())) - '0';
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (last > 9 || number > (most - last) / 10) return std::nullopt;
  return number * 10 + last;
}

// The number in a key's name, such as 12 in "user12"; nothing for a name of another form.
std::optional<std::uint64_t> user_number(std::string_view name) {
  if (!name.starts_with(user_prefix)) return std::nullopt;
  return canonical(name.substr(user_prefix.size()));
}

std::byte* put_name(std::string_view name, std::byte* out) {
  if (const auto number = user_number(name)) {
    *out++ = static_cast<std::byte>(user_form);
    std::memcpy(out, &*number, user_bytes);
    return out + user_bytes;
  }
  if (const auto numbers = version_numbers(name)) {
    *out++ = static_cast<std::byte>(version_form);
    return put_varint(numbers->second, put_varint(numbers->first, out));
  }
  if (name == preloaded_value) {
    *out++ = static_cast<std::byte>(init_form);
    return out;
  }
  out = put_varint(name.size() << 2 | text_form, out);
  std::memcpy(out, name.data(), name.size());
  return out + name.size();
}

}  // namespace

std::optional<std::pair<std::uint64_t, std::uint64_t>> version_numbers(std::string_view name) {
  if (!name.starts_with('w')) return std::nullopt;
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto writer = canonical(name.substr(1, dot - 1));
  const auto sequence = canonical(name.substr(dot + 1));
  if (!writer || !sequence) return std::nullopt;
  return std::pair{*writer, *sequence};
}

std::uint64_t checksum_of(const BlockHeader& header, const std::byte* payload) {
  return XXH3_64bits_withSeed(payload, header.payload_bytes,
                              XXH3_64bits(&header, offsetof(BlockHeader, checksum)));
}

std::uint64_t checksum_of(const EndBlock& end) { return XXH3_64bits(&end, offsetof(EndBlock, checksum)); }

std::size_t binary_bytes_most(const OperationView& operation) {
  return operation_bytes_most + operation.key.size() + (operation.value ? operation.value->size() : 0);
}

std::byte* append_binary(const OperationView& operation, Nanos before, std::byte* out) {
  *out++ = static_cast<std::byte>(
      static_cast<unsigned>(operation.kind) | static_cast<unsigned>(operation.outcome) << outcome_shift |
      (operation.value ? value_bit : 0U) | (operation.return_ns ? return_bit : 0U));
  out = put_varint(zigzag(difference(operation.invoke_ns, before)), out);
  if (operation.return_ns)
    out = put_varint(zigzag(difference(*operation.return_ns, operation.invoke_ns)), out);
  out = put_name(operation.key, out);
  if (operation.value) out = put_name(*operation.value, out);
  return out;
}

bool BlockDecoder::varint(std::uint64_t* out) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && at_ < payload_.size(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(payload_[at_++]);
    if (shift == 63 && byte > 1) return false;
    number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return *out = number, true;
  }
  return false;
}

bool BlockDecoder::name(Name* out) {
  std::uint64_t first = 0;
  if (!varint(&first)) return false;
  out->first = out->second = 0;
  switch (first & 3) {
    case user_form:
      if (first != user_form || payload_.size() - at_ < user_bytes) return false;
      out->form = Name::Form::user;
      std::memcpy(&out->first, payload_.data() + at_, user_bytes);
      at_ += user_bytes;
      return true;
    case version_form:
      out->form = Name::Form::version;
      return first == version_form && varint(&out->first) && varint(&out->second);
    case init_form:
      out->form = Name::Form::init;
      return first == init_form;
    default:
      out->form = Name::Form::text;
      if (first >> 2 > payload_.size() - at_) return false;
      out->text = payload_.substr(at_, first >> 2);
      at_ += out->text.size();
      // Refuses text for which there is a shorter form, so that two names are equal exactly if their
      // encodings are.
      return out->text != preloaded_value && !user_number(out->text) && !version_numbers(out->text);
  }
}

std::uint64_t BlockDecoder::hash_of(const Name& name) {
  if (name.form == Name::Form::text) return XXH3_64bits(name.text.data(), name.text.size());
  return mix64(name.first + static_cast<std::uint64_t>(name.form)) ^ mix64(name.second);
}

std::uint64_t hash_of_name(std::string_view name) {
  using Form = BlockDecoder::Name::Form;
  BlockDecoder::Name parsed{.form = Form::text, .text = name};
  if (const auto number = user_number(name)) {
    parsed.form = Form::user;
    parsed.first = *number;
  } else if (const auto numbers = version_numbers(name)) {
    parsed.form = Form::version;
    std::tie(parsed.first, parsed.second) = *numbers;
  } else if (name == preloaded_value) {
    parsed.form = Form::init;
  }
  return BlockDecoder::hash_of(parsed);
}

std::string_view BlockDecoder::spelled(const Name& name, std::array<char, 48>& place) {
  char* const begin = place.data();
  char* const most = begin + place.size();
  char* end = begin;
  switch (name.form) {
    case Name::Form::text:
      return name.text;
    case Name::Form::init:
      return preloaded_value;
    case Name::Form::user:
      std::memcpy(begin, user_prefix.data(), user_prefix.size());
      end = std::to_chars(begin + user_prefix.size(), most, name.first).ptr;
      break;
    case Name::Form::version:
      *end++ = 'w';
      end = std::to_chars(end, most, name.first).ptr;
      *end++ = '.';
      end = std::to_chars(end, most, name.second).ptr;
      break;
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

std::string_view BlockDecoder::parse() {
  if (left_ == 0) return "no byte behind the last operation of the block";
  if (at_ == payload_.size()) return "as many operations as the block's header says";
  --left_;
  const auto tag = static_cast<std::uint8_t>(payload_[at_++]);
  const unsigned kind = tag & 7U, outcome = tag >> outcome_shift & 7U;
  if (kind > static_cast<unsigned>(OpKind::lost)) return "a kind of operation from 0 to 4";
  if (outcome > static_cast<unsigned>(Outcome::exists)) return "an outcome from 0 to 4";
  operation_.kind = static_cast<OpKind>(kind);
  operation_.outcome = static_cast<Outcome>(outcome);
  has_value_ = (tag & value_bit) != 0;
  std::uint64_t number = 0;
  if (!varint(&number)) return "a varint for the invocation";
  operation_.invoke_ns = sum(before_, unzigzag(number));
  operation_.return_ns.reset();
  if ((tag & return_bit) != 0) {
    if (!varint(&number)) return "a varint for the return";
    operation_.return_ns = sum(operation_.invoke_ns, unzigzag(number));
  }
  if (!name(&key_)) return "the name of a key";
  if (has_value_ && !name(&value_)) return "the name of a value";
  before_ = time_after(operation_);
  return {};
}

}  // namespace loch::check
