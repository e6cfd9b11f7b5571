// The keys of a run's first records and their digests, computed before the run: what an operation in real
// time then does not compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/kv/protocol.h"
#include "workloads/records.h"

namespace loch::workloads {

class KeyTable {
 public:
  // Above this many bytes no table is made: keys are then computed one by one, as on a simulated cluster.
  static constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20;

  // Of the records that are preloaded; empty where they would take more than bytes_max.
  explicit KeyTable(const Records& records);
  KeyTable() = default;

  [[nodiscard]] bool has(std::uint64_t record) const { return record < count_; }
  // The key of a record that the table has; as long as the table lives.
  [[nodiscard]] const std::byte* key(std::uint64_t record) const { return entry(record) + digest_bytes; }
  // kv::key_digest of that key.
  [[nodiscard]] std::uint64_t digest(std::uint64_t record) const {
    return *reinterpret_cast<const std::uint64_t*>(entry(record));
  }

 private:
  static constexpr std::size_t digest_bytes = sizeof(std::uint64_t);
  [[nodiscard]] const std::byte* entry(std::uint64_t record) const {
    return reinterpret_cast<const std::byte*>(words_.get()) + record * stride_;
  }

  // An entry is the digest and, behind it, the key, padded to whole words.
  std::unique_ptr<std::uint64_t[]> words_;
  std::uint64_t count_ = 0, stride_ = 0;
};

}  // namespace loch::workloads
