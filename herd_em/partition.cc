// Executes GET, PUT and DELETE on the index and log of one server worker.
#include "herd_em/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "common/base/probe.h"

namespace loch::herd {

Partition::Partition(const PartitionShape& shape)
    : shape_(shape),
      index_(shape.buckets, shape.tag_bits,
             shape.is_lossless && !shape.evicts_in_store_mode ? Eviction::none : shape.eviction),
      log_(shape.log_bytes, shape.log) {}

bool Partition::is_entry_of(KeyHash key, std::uint64_t offset) {
  if (!log_.is_live(offset)) {
    LOCH_PROBE("herd.entry-overwritten");
    ++counts_.overwritten;
    return false;
  }
  return log_.key(offset) == key;
}

std::optional<Index::Place> Partition::find(KeyHash key) {
  return index_.find(key, [&](std::uint64_t offset) { return is_entry_of(key, offset); });
}

std::optional<std::uint64_t> Partition::store(const Log::Header& header, const std::byte* value) {
  if (!shape_.is_lossless) return log_.append(header, value);
  const std::uint64_t bytes = Log::entry_bytes(header.kept);
  if (const auto free = free_.find(bytes); free != free_.end() && !free->second.empty()) {
    const std::uint64_t offset = free->second.back();
    LOCH_PROBE("herd.entry-reused");
    free->second.pop_back();
    log_.rewrite(offset, header, value);
    return offset;
  }
  if (log_.head() + bytes > log_.capacity() && !shape_.wraps_in_store_mode) return std::nullopt;
  return log_.append(header, value);
}

void Partition::release(std::uint64_t offset) {
  if (shape_.is_lossless && !shape_.keeps_replaced)
    free_[Log::entry_bytes(log_.header(offset).kept)].push_back(offset);
}

bool Partition::put(KeyHash key, const std::byte* value, std::uint32_t length, std::uint32_t kept) {
  prefetched_ = no_offset;
  std::optional<Index::Place> own = find(key);
  if (shape_.inserts_by_first_tag && own != index_.first_with_tag(key)) own.reset();
  if (own) {
    const std::uint64_t offset = index_.offset(*own);
    const Log::Header header = log_.header(offset);
    if (header.length == length && header.kept == kept) {
      ++counts_.updates;
      log_.overwrite_value(offset, value, kept);
      return true;
    }
  }
  const std::optional<std::uint64_t> offset = store({key, length, kept}, value);
  if (!offset) return false;
  if (own) {
    ++counts_.updates;
    release(index_.offset(*own));
    index_.set(key, *own, *offset);
    return true;
  }
  const Index::Room room =
      index_.room(key, shape_.inserts_by_first_tag, [&](std::uint64_t at) { return log_.is_live(at); });
  if (room.evicts) {
    LOCH_PROBE("herd.key-evicted");
    ++counts_.evictions;
  }
  ++counts_.inserts;
  index_.set(key, room.place, *offset);
  return true;
}

// Looks first at the entry that was prefetched last, which is nearly always the key's own, so that the bucket
// need not be searched again. If it has the key, the search is over, because the index holds at most one
// entry of a key.
std::optional<std::uint32_t> Partition::get(KeyHash key, std::byte* out) {
  if (prefetched_ == no_offset) [[unlikely]]
    return get_by_search(key, out);
  const std::byte* const entry = log_.live_in_place(prefetched_, sizeof(Log::Header) + shape_.value_bytes);
  if (entry == nullptr) [[unlikely]]
    return get_by_search(key, out);
  Log::Header header;
  std::memcpy(&header, entry, sizeof header);
  if (header.key != key) [[unlikely]]
    return get_by_search(key, out);
  ++counts_.hits;
  std::memcpy(out, entry + sizeof header, std::min(header.kept, shape_.value_bytes));
  return header.length;
}

std::optional<std::uint32_t> Partition::get_by_search(KeyHash key, std::byte* out) {
  const std::optional<Index::Place> own = find(key);
  if (!own) {
    ++counts_.misses;
    return std::nullopt;
  }
  ++counts_.hits;
  const std::uint64_t offset = index_.offset(*own);
  const std::byte* const entry = log_.in_place(offset, sizeof(Log::Header) + shape_.value_bytes);
  Log::Header header;
  if (entry == nullptr) [[unlikely]] {
    header = log_.header(offset);
    log_.read_value(offset, out, std::min(header.kept, shape_.value_bytes));
    return header.length;
  }
  std::memcpy(&header, entry, sizeof header);
  std::memcpy(out, entry + sizeof header, std::min(header.kept, shape_.value_bytes));
  return header.length;
}

bool Partition::remove(KeyHash key) {
  prefetched_ = no_offset;
  const std::optional<Index::Place> own = find(key);
  if (!own) return false;
  ++counts_.removals;
  release(index_.offset(*own));
  index_.clear(*own);
  return true;
}

void Partition::prefetch_entry(KeyHash key) {
  prefetched_ = index_.first_offset(key).value_or(no_offset);
  if (prefetched_ != no_offset) log_.prefetch(prefetched_);
}

std::vector<std::string> Partition::audit() const {
  std::vector<std::string> wrong;
  std::set<std::array<std::byte, keyhash_bytes>> keys;
  std::uint64_t used = 0;
  index_.visit([&](std::uint64_t home, std::uint64_t offset) {
    if (!log_.is_live(offset)) return;
    const Log::Header header = log_.header(offset);
    used += Log::entry_bytes(header.kept);
    if (index_.home(header.key) != home)
      wrong.push_back(fmt::format("the entry at {} is in bucket {}, where it does not belong", offset, home));
    std::array<std::byte, keyhash_bytes> key;
    std::memcpy(key.data(), &header.key, key.size());
    if (!keys.insert(key).second) wrong.push_back(fmt::format("the key at {} has two slots", offset));
  });
  if (!shape_.is_lossless) return wrong;
  for (const auto& [bytes, offsets] : free_) used += bytes * offsets.size();
  if (used != log_.head())
    wrong.push_back(fmt::format("{} bytes of the log are in use or free, of {}", used, log_.head()));
  return wrong;
}

}  // namespace loch::herd
