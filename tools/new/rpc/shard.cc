// A hash index over entries of equal size.
#include "newstore/shard.h"

#include <algorithm>

namespace loch::newstore {

ShardShape shard_shape(const kv::DeployConfig& config, const kv::Options& /*options*/,
                       std::string_view mutant) {
  return {.value_bytes = config.kept_value_bytes, .leaves_removed_index = mutant == "removed-key-found"};
}
void add_shard_options(std::vector<kv::OptionSpec>& /*specs*/) {}
void add_shard_mutants(std::map<std::string, kv::Mutant>& mutants) {
  mutants["removed-key-found"] = {"a removed key is still found, at an entry that another key may have", 1};
}

void Shard::put(const std::string& key, const std::vector<std::byte>& value) {
  const auto [place, is_new] = index_.try_emplace(key, 0);
  if (is_new && !free_.empty()) {
    place->second = free_.back();
    free_.pop_back();
  } else if (is_new) {
    place->second = made_++;
    entries_.resize(made_ * shape_.value_bytes);
  }
  std::ranges::copy(value, entry(place->second));
}

bool Shard::get(const std::string& key, std::vector<std::byte>& value) const {
  const auto found = index_.find(key);
  if (found == index_.end()) return false;
  std::copy_n(entries_.begin() + static_cast<std::ptrdiff_t>(found->second * shape_.value_bytes),
              shape_.value_bytes, value.begin());
  return true;
}

bool Shard::remove(const std::string& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return false;
  free_.push_back(found->second);
  if (!shape_.leaves_removed_index) index_.erase(found);
  return true;
}

std::map<std::string, double> Shard::counters() const {
  return {{"keys", static_cast<double>(index_.size())}, {"entries", static_cast<double>(made_)}};
}

}  // namespace loch::newstore
