// A table of the keys of a run's first records and of their digests. It is computed before the run, so that
// operations in real time need not compute them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/kv/protocol.h"
#include "workloads/records.h"

namespace loch::workloads {

class KeyTable {
 public:
  // Largest size of the table in bytes. Runs with more keys compute each key when it is used, as simulated
  // runs do.
  static constexpr std::uint64_t bytes_max = std::uint64_t{256} << 20;

  // Computes the table of the preloaded records; it stays empty if it would take more than bytes_max.
  explicit KeyTable(const Records& records);
  KeyTable() = default;

  [[nodiscard]] bool has(std::uint64_t record) const { return record < count_; }
  // Returns the key of a record in the table; valid as long as the table lives.
  [[nodiscard]] const std::byte* key(std::uint64_t record) const { return entry(record) + digest_bytes; }
  // Returns kv::key_digest of the record's key.
  [[nodiscard]] std::uint64_t digest(std::uint64_t record) const {
    return *reinterpret_cast<const std::uint64_t*>(entry(record));
  }

 private:
  static constexpr std::size_t digest_bytes = sizeof(std::uint64_t);
  [[nodiscard]] const std::byte* entry(std::uint64_t record) const {
    return reinterpret_cast<const std::byte*>(words_.get()) + record * stride_;
  }

  // For each record the digest of its key and then the key, padded to whole words. Shared by the copies of a
  // table, which the loads of one store have one after the other.
  std::shared_ptr<const std::uint64_t[]> words_;
  std::uint64_t count_ = 0, stride_ = 0;
};

}  // namespace loch::workloads
