// The data of one server worker: index and log in private memory. No other worker accesses it (EREW: the
// key's hash decides the worker), so it needs no locks.
//
// In cache mode a key may be forgotten at any time, when its bucket or the log is full. A key never has more
// than one slot, so a GET returns the newest value or nothing. In store mode (is_lossless) buckets are
// chained, the log does not wrap around, space of removed entries is reused, and a PUT without room fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "herd_em/index.h"
#include "herd_em/log.h"

namespace loch::herd {

struct PartitionShape {
  std::uint64_t buckets = 1;
  std::uint64_t log_bytes = 1024;
  std::uint32_t value_bytes = 0;  // largest number of bytes that are stored of a value
  std::uint32_t tag_bits = 16;
  Eviction eviction = Eviction::oldest;
  bool is_lossless = false;
  LogDefects log;
  // Known-bad variant: a PUT compares its key only with that of the first index slot that has the key's tag
  // (part of its hash). If that slot holds another key, the PUT inserts an entry, even if a later slot holds
  // the key.
  bool inserts_by_first_tag = false;
  // Known-bad variants in store mode: the log wraps around, index slots are evicted, or the space of removed
  // entries is never reused.
  bool wraps_in_store_mode = false, evicts_in_store_mode = false, keeps_replaced = false;
};

struct PartitionCounts {
  std::uint64_t inserts = 0, updates = 0, evictions = 0, hits = 0, misses = 0, removals = 0, overwritten = 0;
};

class Partition {
 public:
  explicit Partition(const PartitionShape& shape);

  // Stores a value of `length` bytes. `value` points to its first `kept` bytes; only these are stored.
  // Returns false if there is no room, which happens in store mode only.
  [[nodiscard]] bool put(KeyHash key, const std::byte* value, std::uint32_t length, std::uint32_t kept);
  // Copies the stored bytes of the value, at most value_bytes, to `out` and returns the value's length;
  // nullopt if the key is absent.
  [[nodiscard]] std::optional<std::uint32_t> get(KeyHash key, std::byte* out);
  // Whether get() would find the key.
  [[nodiscard]] bool has(KeyHash key) { return find(key).has_value(); }
  // Removes the key; returns whether it was present.
  bool remove(KeyHash key);

  // An operation has two cache misses. prefetch_bucket() prefetches the key's bucket; prefetch_entry(), once
  // the bucket is cached, the log entry of the first index slot with the key's tag (part of its hash).
  void prefetch_bucket(KeyHash key) const { index_.prefetch(key); }
  void prefetch_entry(KeyHash key);

  // Violated invariants, one line each: a key with two index slots or in a wrong bucket, leaked log space.
  [[nodiscard]] std::vector<std::string> audit() const;
  [[nodiscard]] const PartitionCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] std::optional<Index::Place> find(KeyHash key);
  [[nodiscard]] std::optional<std::uint64_t> store(const Log::Header& header, const std::byte* value);
  void release(std::uint64_t offset);
  [[nodiscard]] bool is_entry_of(KeyHash key, std::uint64_t offset);
  [[nodiscard, gnu::noinline]] std::optional<std::uint32_t> get_by_search(KeyHash key, std::byte* out);

  PartitionShape shape_;
  Index index_;
  Log log_;
  // In store mode: log offsets of removed entries, for reuse, by the entry's size in bytes.
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;
  // What prefetch_entry() found last: a log offset that the index holds, or no_offset. A PUT or DELETE may
  // change the index, and therefore resets it.
  static constexpr std::uint64_t no_offset = ~std::uint64_t{0};
  std::uint64_t prefetched_ = no_offset;
  PartitionCounts counts_;
};

}  // namespace loch::herd
