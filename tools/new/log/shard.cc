// An append-only log with an index, and the log's compaction.
#include "newstore/shard.h"

#include <algorithm>
#include <cstring>

namespace loch::newstore {

ShardShape shard_shape(const kv::DeployConfig& config, const kv::Options& options, std::string_view mutant) {
  return {.key_bytes = config.key_size,
          .value_bytes = config.kept_value_bytes,
          .spare = static_cast<std::uint64_t>(options.integer("newstore.spare")),
          .keeps_oldest = mutant == "compaction-keeps-oldest"};
}
void add_shard_options(std::vector<kv::OptionSpec>& specs) {
  specs.push_back({.key = "newstore.spare",
                   .type = kv::OptionType::integer,
                   .initial = "1024",
                   .help = "dead log entries beyond the live ones before the log is compacted",
                   .choices = {},
                   .minimum = 0,
                   .maximum = 1e9,
                   .fuzz_values = {"0", "1", "7"}});
}
void add_shard_mutants(std::map<std::string, kv::Mutant>& mutants) {
  mutants["compaction-keeps-oldest"] = {"compaction keeps the oldest entry of a key instead of the newest",
                                        1};
}

void Shard::put(const std::string& key, const std::vector<std::byte>& value) {
  const std::uint64_t at = log_.size();
  log_.resize(at + entry_bytes());
  std::memcpy(&log_[at], key.data(), key.size());
  std::ranges::copy(value, &log_[at + shape_.key_bytes]);
  index_[key] = at;
  ++appended_;
  if (entries() - index_.size() > index_.size() + shape_.spare) compact();
}

bool Shard::get(const std::string& key, std::vector<std::byte>& value) const {
  const auto found = index_.find(key);
  if (found == index_.end()) return false;
  std::copy_n(&log_[found->second + shape_.key_bytes], shape_.value_bytes, value.begin());
  return true;
}

bool Shard::remove(const std::string& key) { return index_.erase(key) == 1; }

void Shard::compact() {
  ++compactions_;
  std::vector<std::byte> fresh;
  fresh.reserve(index_.size() * entry_bytes());
  std::unordered_map<std::string, std::uint64_t> moved;
  for (std::uint64_t at = 0; at < log_.size(); at += entry_bytes()) {
    const std::string key(reinterpret_cast<const char*>(&log_[at]), shape_.key_bytes);
    const auto live = index_.find(key);
    if (live == index_.end()) continue;
    if (shape_.keeps_oldest ? moved.contains(key) : live->second != at) continue;
    moved[key] = fresh.size();
    const auto from = log_.begin() + static_cast<std::ptrdiff_t>(at);
    fresh.insert(fresh.end(), from, from + static_cast<std::ptrdiff_t>(entry_bytes()));
  }
  index_ = std::move(moved);
  log_ = std::move(fresh);
}

std::map<std::string, double> Shard::counters() const {
  return {{"keys", static_cast<double>(index_.size())},
          {"appended", static_cast<double>(appended_)},
          {"compactions", static_cast<double>(compactions_)}};
}

}  // namespace loch::newstore
