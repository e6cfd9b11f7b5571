#include "herd_em/partition.h"

#include <algorithm>

namespace loch::herd {

Partition::Partition(const PartitionShape& shape)
    : shape_(shape),
      index_(shape.buckets, shape.tag_bits, shape.eviction),
      log_(shape.log_bytes, shape.log) {}

bool Partition::is_entry_of(KeyHash key, std::uint64_t offset) {
  if (!log_.is_live(offset)) {
    ++counts_.overwritten;
    return false;
  }
  return log_.header(offset).key == key;
}

std::optional<std::uint32_t> Partition::find(KeyHash key) {
  return index_.find(key, [&](std::uint64_t offset) { return is_entry_of(key, offset); });
}

void Partition::put(KeyHash key, const std::byte* value, std::uint32_t length, std::uint32_t kept) {
  std::optional<std::uint32_t> own = find(key);
  if (shape_.inserts_by_first_tag && own != index_.first_with_tag(key)) own.reset();
  if (own) {
    const std::uint64_t offset = index_.offset(key, *own);
    const Log::Header header = log_.header(offset);
    if (header.length == length && header.kept == kept) {
      ++counts_.updates;
      return log_.overwrite_value(offset, value, kept);
    }
  }
  const std::uint64_t offset = log_.append({key, length, kept}, value);
  if (own) {
    ++counts_.updates;
    return index_.set(key, *own, offset);
  }
  const Index::Room room =
      index_.room(key, shape_.inserts_by_first_tag, [&](std::uint64_t at) { return log_.is_live(at); });
  counts_.evictions += room.evicts ? 1 : 0;
  ++counts_.inserts;
  index_.set(key, room.way, offset);
}

std::optional<std::uint32_t> Partition::get(KeyHash key, std::byte* out) {
  const std::optional<std::uint32_t> own = find(key);
  if (!own) {
    ++counts_.misses;
    return std::nullopt;
  }
  ++counts_.hits;
  const std::uint64_t offset = index_.offset(key, *own);
  const Log::Header header = log_.header(offset);
  log_.read_value(offset, out, std::min(header.kept, shape_.value_bytes));
  return header.length;
}

bool Partition::remove(KeyHash key) {
  const std::optional<std::uint32_t> own = find(key);
  if (!own) return false;
  ++counts_.removals;
  index_.clear(key, *own);
  return true;
}

void Partition::prefetch_entry(KeyHash key) const {
  const std::optional<std::uint32_t> first = index_.first_with_tag(key);
  if (first) log_.prefetch(index_.offset(key, *first));
}

}  // namespace loch::herd
