// The records of a run: their keys, and their first values.
//
// A key of 24 bytes or more is YCSB's: "user" and the decimal number (hashed: fnv64 of the record's),
// padded with zero bytes. Shorter ones keep as much as makes them distinct: 11 bytes and up, a
// 64-bit mix of the record number in 11 characters; 8 to 10 bytes, that mix itself; fewer, the
// record number in little-endian bytes.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/kv/protocol.h"
#include "workloads/spec.h"

namespace loch::workloads {

class Records final : public kv::Dataset {
 public:
  struct Shape {
    std::uint64_t preloaded = 0;  // count()
    std::uint64_t most = 0;       // with later inserts; >= preloaded
    std::uint32_t key_size = 128, value_size = 1024;
    KeyOrder order = KeyOrder::hashed;
    std::uint32_t zero_padding = 1;
  };
  // Refuses a key size that cannot tell the records apart.
  [[nodiscard]] static Result<Records> make(const Shape& shape);

  [[nodiscard]] std::uint64_t count() const override { return shape_.preloaded; }
  void key(std::uint64_t i, std::byte* out) const override;
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override;
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  explicit Records(const Shape& shape) : shape_(shape) {}
  Shape shape_;
};

// How a history names a key: its text without the padding, or "0x…" when it is not printable.
[[nodiscard]] std::string key_name(kv::Key key);

}  // namespace loch::workloads
