// The records of a run: their keys, and their first values.
//
// A key of 24 bytes or more is YCSB's: "user" and the decimal number (hashed: fnv64 of the record's),
// padded with zero bytes. Shorter ones keep as much as makes them distinct: 11 bytes and up, a
// 64-bit mix of the record number in 11 characters; 8 to 10 bytes, that mix itself; fewer, the
// record number in little-endian bytes. Where keys have different sizes, each is made by the rule for its own
// size and padded with dots instead, so that its length is its own; the least size is then 8 bytes.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/kv/protocol.h"
#include "common/kv/value.h"
#include "workloads/sizes.h"
#include "workloads/spec.h"
#include "workloads/trace.h"

namespace loch::workloads {

class Records final : public kv::Dataset {
 public:
  struct Shape {
    std::uint64_t preloaded = 0;                      // count()
    std::uint64_t most = 0;                           // with later inserts; >= preloaded
    std::uint32_t key_size = 128, value_size = 1024;  // the largest
    KeyOrder order = KeyOrder::hashed;
    std::uint32_t zero_padding = 1;
    // How long each is; null: all have the sizes above, which otherwise are most().
    std::shared_ptr<const Sizes> key_sizes = nullptr, value_sizes = nullptr;
    // A trace's, instead of drawn ones; whoever PUTs says then how long the value is.
    std::shared_ptr<const RecordTable> table = nullptr;

    [[nodiscard]] bool has_key_sizes() const {
      return key_sizes != nullptr || (table != nullptr && !table->key_bytes.empty());
    }
    [[nodiscard]] bool has_value_sizes() const {
      return value_sizes != nullptr || (table != nullptr && !table->value_bytes.empty());
    }
  };
  // Refuses a key size that cannot tell the records apart.
  [[nodiscard]] static Result<Records> make(const Shape& shape);

  [[nodiscard]] std::uint64_t count() const override { return shape_.preloaded; }
  // Of any record, preloaded or not.
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i) const {
    if (shape_.table) return shape_.table->key_bytes.empty() ? shape_.key_size : shape_.table->key_bytes[i];
    return shape_.key_sizes ? shape_.key_sizes->of(mix64(i ^ key_size_salt)) : shape_.key_size;
  }
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i, std::uint32_t /*largest*/) const override {
    return key_size(i);
  }
  [[nodiscard]] std::uint32_t value_size(std::uint64_t i, std::uint32_t largest) const override;
  // Of the version of a key's value that a writer wrote as its `sequence`-th: what stamps name (common/kv/
  // value.h), of which the bits that a small value has count.
  [[nodiscard]] std::uint32_t version_size(std::uint64_t key_digest, std::uint32_t writer,
                                           std::uint64_t sequence) const {
    if (!shape_.value_sizes) return shape_.value_size;
    return drawn_size(key_digest, writer, sequence);
  }
  // Whether a value that a GET returned has the size that its version has to have; of one that is too small
  // to name its version, a size that some version has.
  [[nodiscard]] bool is_size_right(const kv::ValueReading& reading, std::uint32_t size,
                                   std::uint64_t key_digest) const;
  void key(std::uint64_t i, std::byte* out) const override;
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override;
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  static constexpr std::uint64_t key_size_salt = 0x6B65'795F'7369'7A65;
  explicit Records(const Shape& shape) : shape_(shape) {}
  [[nodiscard]] std::uint32_t drawn_size(std::uint64_t key_digest, std::uint32_t writer,
                                         std::uint64_t sequence) const;
  Shape shape_;
};

// How a history names a key: its text without the padding, or "0x…" when it is not printable.
[[nodiscard]] std::string key_name(kv::Key key);

}  // namespace loch::workloads
