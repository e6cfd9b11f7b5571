// The records of one server worker: an append-only log, and an index with the position of each key's newest
// entry.
//
//   log    | entry | entry | …        an entry: key | value, of one size
//   index  key -> position of its newest entry
//
// A PUT appends an entry; a DELETE removes the key from the index. When dead entries outnumber live ones by
// more than newstore.spare, the live entries are copied to a new log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::newstore {

inline constexpr std::string_view shard_summary =
    "server-driven: request and reply by RDMA WRITE; a server worker owns a log and its index";

struct ShardShape {
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;  // stored bytes of a value; a simulation may store fewer than all
  std::uint64_t spare = 0;        // compaction starts when dead entries exceed live ones by more than this
  bool keeps_oldest = false;  // known-bad variant: compaction keeps the oldest entry of a key, not the newest
};
[[nodiscard]] ShardShape shard_shape(const kv::DeployConfig& config, const kv::Options& options,
                                     std::string_view mutant);
void add_shard_options(std::vector<kv::OptionSpec>& specs);
void add_shard_mutants(std::map<std::string, kv::Mutant>& mutants);

class Shard {
 public:
  explicit Shard(const ShardShape& shape) : shape_(shape) {}

  // Stores the key; `value` has value_bytes bytes.
  void put(const std::string& key, const std::vector<std::byte>& value);
  // Returns whether the key is present, and copies its value to `value`.
  [[nodiscard]] bool get(const std::string& key, std::vector<std::byte>& value) const;
  // Removes the key; returns whether it was present.
  bool remove(const std::string& key);
  [[nodiscard]] std::map<std::string, double> counters() const;

 private:
  [[nodiscard]] std::uint64_t entry_bytes() const { return shape_.key_bytes + shape_.value_bytes; }
  [[nodiscard]] std::uint64_t entries() const { return log_.size() / entry_bytes(); }
  void compact();

  ShardShape shape_;
  std::unordered_map<std::string, std::uint64_t> index_;  // key -> position in log_
  std::vector<std::byte> log_;
  std::uint64_t appended_ = 0, compactions_ = 0;
};

}  // namespace loch::newstore
