// Byte layouts of FaRM-em. Both forms have a hopscotch neighbourhood of six: a key lies in one of the six
// buckets from its home bucket on, and one READ fetches all six. S_K and S_V are the bytes of a key and of a
// value.
//
//   farm-em       bucket   | key | value |                        READ of 6 (S_K + S_V)
//   farm-em-var   bucket   | key | pointer u64 |                  READ of 6 (S_K + S_P), S_P = 8
//                 value    | value |                              READ of value number `pointer`: S_V
//
// Buckets are not padded: with keys of 16 bytes and values of 32 bytes a READ of farm-em has 288 bytes, and
// the two READs of farm-em-var have 144 and 32.
#pragma once

#include <cstdint>

#include "common/fabric/region.h"

namespace loch::farm {

enum class Form : std::uint8_t { inlined, variable };

constexpr std::uint32_t neighbourhood = 6;
constexpr std::uint32_t pointer_bytes = 8;

class Layout {
 public:
  Layout(Form form, std::uint32_t key_size, std::uint32_t value_size)
      : form_(form), key_size_(key_size), value_size_(value_size) {}
  [[nodiscard]] Form form() const { return form_; }
  [[nodiscard]] std::uint32_t key_size() const { return key_size_; }
  [[nodiscard]] std::uint32_t value_size() const { return value_size_; }
  [[nodiscard]] std::uint32_t bucket_bytes() const {
    return key_size_ + (form_ == Form::inlined ? value_size_ : pointer_bytes);
  }
  // Bytes of the six buckets that one READ of the index fetches.
  [[nodiscard]] std::uint32_t neighbourhood_bytes() const { return neighbourhood * bucket_bytes(); }

  // Says which bytes a simulation stores of each bucket: all bytes where buckets hold pointers, else the key
  // and the first `kept` bytes of the value.
  [[nodiscard]] fabric::Elision bucket_elision(std::uint32_t kept) const {
    if (form_ == Form::variable) return {};
    return head_of(bucket_bytes(), key_size_ + kept);
  }
  [[nodiscard]] fabric::Elision value_elision(std::uint32_t kept) const { return head_of(value_size_, kept); }

 private:
  // Says that a simulation stores only the first `kept` bytes, rounded up to a multiple of 8, of each entry
  // of `entry` bytes.
  [[nodiscard]] static fabric::Elision head_of(std::uint32_t entry, std::uint32_t kept) {
    const std::uint32_t head = (kept + 7) / 8 * 8;
    if (head >= entry) return {};
    return {.entry_bytes = entry, .keep_head = head, .keep_tail = 0};
  }

  Form form_;
  std::uint32_t key_size_, value_size_;
};

}  // namespace loch::farm
