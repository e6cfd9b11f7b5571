// The records of a run: their keys and their first values.
//
// A key of 24 bytes or more has YCSB's form: "user" and a decimal number (fnv64 of the record number, if
// hashed), padded with zero bytes. A shorter key keeps only what makes it distinct: from 11 bytes on, a
// 64-bit mix of the record number in 11 characters; with 8 to 10 bytes, that mix in binary; below 8 bytes,
// the record number in little-endian order. Where keys have different sizes, each key follows the rule for
// its own size and is padded with dots instead of zeros, so that its length shows; the least size is then 8
// bytes.
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
    std::uint64_t preloaded = 0;  // number of records that are written before the run
    std::uint64_t most = 0;  // number of records including those that a run inserts; at least `preloaded`
    std::uint32_t key_size = 128, value_size = 1024;  // bytes; of the largest key and value if sizes differ
    KeyOrder order = KeyOrder::hashed;
    std::uint32_t zero_padding = 1;
    // Sizes of keys and values; null: all have key_size or value_size. If not null, its most() equals
    // key_size or value_size.
    std::shared_ptr<const Sizes> key_sizes = nullptr, value_sizes = nullptr;
    // Sizes that a replayed trace gives, used instead of drawn ones; the size of a PUT's value then comes
    // from the trace's operation.
    std::shared_ptr<const RecordTable> table = nullptr;

    [[nodiscard]] bool has_key_sizes() const {
      return key_sizes != nullptr || (table != nullptr && !table->key_bytes.empty());
    }
    [[nodiscard]] bool has_value_sizes() const {
      return value_sizes != nullptr || (table != nullptr && !table->value_bytes.empty());
    }
  };
  // Fails if keys of the requested size cannot be distinct for all records.
  [[nodiscard]] static Result<Records> make(const Shape& shape);

  [[nodiscard]] std::uint64_t count() const override { return shape_.preloaded; }
  // Bytes of the key of record i, preloaded or not.
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i) const {
    if (shape_.table) return shape_.table->key_bytes.empty() ? shape_.key_size : shape_.table->key_bytes[i];
    return shape_.key_sizes ? shape_.key_sizes->of(mix64(i ^ key_size_salt)) : shape_.key_size;
  }
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i, std::uint32_t /*largest*/) const override {
    return key_size(i);
  }
  [[nodiscard]] std::uint32_t value_size(std::uint64_t i, std::uint32_t largest) const override;
  // Bytes of the value that `writer` wrote as its `sequence`-th PUT. A small value can hold only some bits of
  // writer and sequence (its stamp, common/kv/value.h); only those bits count, so that a reader can compute
  // the size.
  [[nodiscard]] std::uint32_t version_size(std::uint64_t key_digest, std::uint32_t writer,
                                           std::uint64_t sequence) const {
    if (!shape_.value_sizes) return shape_.value_size;
    return drawn_size(key_digest, writer, sequence);
  }
  // Whether a value that a GET returned has the size that belongs to the writer and sequence in its stamp
  // (first bytes). A value too small for a full stamp passes if some possible version has that size.
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

// The name of a key in a history: its text without trailing zero bytes, or "0x…" if it is not printable.
[[nodiscard]] std::string key_name(kv::Key key);
// The same without a copy where that can be: the result points into the key or into `place`.
[[nodiscard]] std::string_view key_name(kv::Key key, std::string& place);

}  // namespace loch::workloads
