// The binary form of a history (docs/formats.md): a file header, blocks of operations of one client each,
// and an end. Numbers are little-endian; a varint has 7 bits a byte, the low ones first, and the high bit in
// every byte but the last.
//
// file header | magic 8 | version u32 | byte order u32 |
// block       | "LBLK" | payload bytes u32 | operations u32 | client i32 | log u32 | number u32 | XXH3 u64 |
//             | payload |
// end         | "LEND" | 0 u32 | operations u64 | waits u64 | waited ns u64 | 0 u64 | XXH3 u64 |
// operation   | tag u8 | invoke varint | return varint | key | value |
//
// The checksum (XXH3) of a block covers the fields of its header before the checksum and the payload; that of
// the end covers the fields before it. Files that are concatenated are one history. The operations of a block
// can be decoded without any other block.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/check/history.h"

namespace loch::check {

static_assert(std::endian::native == std::endian::little, "the structs below are written as they are");

// The first byte is not ASCII, so that the file is not taken for text. The last two bytes are CR and LF, so
// that a transfer that rewrites line ends is noticed.
inline constexpr std::array<char, 8> binary_magic = {'\x8B', 'L', 'O', 'C', 'H', 'H', '\r', '\n'};
inline constexpr std::uint32_t binary_version = 1;
inline constexpr std::uint32_t byte_order_mark = 0x0102'0304;
inline constexpr std::uint32_t block_magic = 0x4B4C'424C;  // the bytes "LBLK", read as a little-endian number
inline constexpr std::uint32_t end_magic = 0x444E'454C;    // the bytes "LEND", read as a little-endian number
// The largest payload of a block, in bytes; an operation that needs more cannot be recorded.
inline constexpr std::uint32_t payload_bytes_max = 1 << 20;

struct FileHeader {
  std::array<char, 8> magic = binary_magic;
  std::uint32_t version = binary_version;
  std::uint32_t byte_order = byte_order_mark;
};
static_assert(sizeof(FileHeader) == 16);

struct BlockHeader {
  std::uint32_t magic = block_magic;
  std::uint32_t payload_bytes = 0;
  std::uint32_t operations = 0;
  std::int32_t client = 0;
  // number of the log (the stream of one client's operations) among the logs of its process
  std::uint32_t log = 0;
  std::uint32_t number = 0;  // number of the block within its log
  std::uint64_t checksum = 0;
};
static_assert(sizeof(BlockHeader) == 32 && offsetof(BlockHeader, checksum) == 24);

struct EndBlock {
  std::uint32_t magic = end_magic;
  std::uint32_t zero = 0;
  std::uint64_t operations = 0;  // number of operations in this file alone, even if files are concatenated
  std::uint64_t waits = 0;       // how often a worker waited for room in its ring buffer
  std::uint64_t waited_ns = 0;
  std::uint64_t reserved = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(EndBlock) == 48 && offsetof(EndBlock, checksum) == 40);

[[nodiscard]] std::uint64_t checksum_of(const BlockHeader& header, const std::byte* payload);
[[nodiscard]] std::uint64_t checksum_of(const EndBlock& end);

// The most bytes that append_binary() writes for the operation.
[[nodiscard]] std::size_t binary_bytes_most(const OperationView& operation);

// Encodes an operation to `out`, which has room for binary_bytes_most() bytes; returns the end of what was
// written. `before` is the time in ns to which invoke_ns is relative: 0 for the first operation of a block,
// then what time_after() returned for the operation before it.
[[nodiscard]] std::byte* append_binary(const OperationView& operation, Nanos before, std::byte* out);
[[nodiscard]] inline Nanos time_after(const OperationView& operation) {
  return operation.return_ns.value_or(operation.invoke_ns);
}

// The writer and the sequence number in a value's name, such as 3 and 17 in "w3.17"; nothing for a name of
// another form, such as "w03.17": two names with the same numbers are equal.
[[nodiscard]] std::optional<std::pair<std::uint64_t, std::uint64_t>> version_numbers(std::string_view name);

// A hash of a key's name, the same whether the history is text or binary.
[[nodiscard]] std::uint64_t hash_of_name(std::string_view name);

// Decodes the operations of one block, in the order in which they were recorded.
class BlockDecoder {
 public:
  // `payload` has to outlive the decoder.
  BlockDecoder(const BlockHeader& header, std::string_view payload)
      : payload_(payload), left_(header.operations) {
    operation_.client = header.client;
  }
  BlockDecoder() = default;

  [[nodiscard]] bool is_done() const { return left_ == 0 && at_ == payload_.size(); }
  // Offset in the payload, in bytes, of the operation that next() decodes.
  [[nodiscard]] std::size_t offset() const { return at_; }
  // Decodes the next operation into operation(). If `selected`, called with the hash of the operation's key,
  // returns false, key and value are left out. Returns an empty text, or for a malformed payload what was
  // expected, such as "the name of a key".
  template <typename Selected>
  [[nodiscard]] std::string_view next(Selected selected);
  // Valid until the next call of next().
  [[nodiscard]] const OperationView& operation() const { return operation_; }
  [[nodiscard]] bool is_selected() const { return is_selected_; }

 private:
  // A name of a key or value as it is encoded: its text, or the numbers in "user1" (first) or "w1.2" (first
  // and second).
  struct Name {
    enum class Form : std::uint8_t { text, user, version, init } form = Form::text;
    std::string_view text;
    std::uint64_t first = 0, second = 0;
  };
  bool varint(std::uint64_t* out);
  bool name(Name* out);
  [[nodiscard]] static std::uint64_t hash_of(const Name& name);
  friend std::uint64_t hash_of_name(std::string_view name);
  [[nodiscard]] static std::string_view spelled(const Name& name, std::array<char, 48>& place);
  // Decodes the next operation, but leaves the names of its key and value in their encoded form. Returns an
  // empty text, or what was expected if the payload is malformed, as next() does.
  [[nodiscard]] std::string_view parse();

  std::string_view payload_;
  std::size_t at_ = 0;
  std::uint32_t left_ = 0;
  Nanos before_ = 0;
  OperationView operation_;
  bool has_value_ = false, is_selected_ = true;
  Name key_, value_;
  std::array<char, 48> key_place_{}, value_place_{};
};

template <typename Selected>
std::string_view BlockDecoder::next(Selected selected) {
  if (const std::string_view wanted = parse(); !wanted.empty()) return wanted;
  is_selected_ = operation_.kind == OpKind::lost || selected(hash_of(key_));
  if (!is_selected_) return {};
  operation_.key = spelled(key_, key_place_);
  operation_.value.reset();
  if (has_value_) operation_.value = spelled(value_, value_place_);
  return {};
}

}  // namespace loch::check
