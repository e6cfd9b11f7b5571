// What one server worker owns of the data: index and log, in private memory. Nobody else reads or writes
// it (EREW: the worker is decided by the key's hash), so there is no lock in it.
//
// A cache that loses: a key may be forgotten at any time, when its bucket or the log is full; but a key
// never has more than one slot, so that what is read is the newest value or nothing.
//
// Store mode (is_lossless): buckets grow, the log does not wrap, what is removed is used again, and a PUT
// that finds no room says so.
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
  std::uint32_t value_bytes = 0;  // stored bytes of the largest value
  std::uint32_t tag_bits = 16;
  Eviction eviction = Eviction::oldest;
  bool is_lossless = false;
  LogDefects log;
  // Known bad: a PUT looks at the first slot with its tag alone and, if that is another key's, takes the
  // last free slot beside an older one of its own.
  bool inserts_by_first_tag = false;
  // Known bad, of store mode: what must forget nothing wraps its log, gives slots away, or never uses the
  // room of removed entries again.
  bool wraps_in_store_mode = false, evicts_in_store_mode = false, keeps_replaced = false;
};

struct PartitionCounts {
  std::uint64_t inserts = 0, updates = 0, evictions = 0, hits = 0, misses = 0, removals = 0, overwritten = 0;
};

class Partition {
 public:
  explicit Partition(const PartitionShape& shape);

  // A value of `length` bytes of which `kept` are here, at `value`. False: no room (store mode alone).
  [[nodiscard]] bool put(KeyHash key, const std::byte* value, std::uint32_t length, std::uint32_t kept);
  // Copies what is kept of the value, at most value_bytes, and returns its length; none if the key is not
  // there.
  [[nodiscard]] std::optional<std::uint32_t> get(KeyHash key, std::byte* out);
  // Whether get() would find the key.
  [[nodiscard]] bool has(KeyHash key) { return find(key).has_value(); }
  // Removes the key; returns whether it was present.
  bool remove(KeyHash key);

  // The two accesses to memory that an operation takes, ahead of it: the key's bucket; then, when that is
  // here, the log entry that its first slot with the key's tag points to.
  void prefetch_bucket(KeyHash key) const { index_.prefetch(key); }
  void prefetch_entry(KeyHash key) const;

  // Violated invariants: a key with two slots or in another key's bucket, space of the log that is lost.
  [[nodiscard]] std::vector<std::string> audit() const;
  [[nodiscard]] const PartitionCounts& counts() const { return counts_; }

 private:
  [[nodiscard]] std::optional<Index::Place> find(KeyHash key);
  [[nodiscard]] std::optional<std::uint64_t> store(const Log::Header& header, const std::byte* value);
  void release(std::uint64_t offset);
  [[nodiscard]] bool is_entry_of(KeyHash key, std::uint64_t offset);

  PartitionShape shape_;
  Index index_;
  Log log_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_;  // store mode: removed entries, by size
  PartitionCounts counts_;
};

}  // namespace loch::herd
