// The records of one server worker: a hash index over entries of equal size, in its private memory.
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
    "server-driven: request and reply by RDMA WRITE; a server worker owns a hash table";

struct ShardShape {
  std::uint32_t value_bytes = 0;  // stored bytes of a value; a simulation may store fewer than all
  // known-bad variant: a removed key still finds its entry, although that entry is reused for other keys
  bool leaves_removed_index = false;
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
  [[nodiscard]] std::byte* entry(std::uint64_t number) { return &entries_[number * shape_.value_bytes]; }

  ShardShape shape_;
  std::unordered_map<std::string, std::uint64_t> index_;  // key -> number of its entry
  std::vector<std::byte> entries_;
  std::vector<std::uint64_t> free_;  // numbers of entries that are free for reuse
  std::uint64_t made_ = 0;
};

}  // namespace loch::newstore
