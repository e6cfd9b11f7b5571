// How a GET compares, copies and caches entries.
#pragma once

#include <cstring>
#include <optional>
#include <utility>

#include "common/kv/word_cache.h"
#include "common/onesided/get.h"

namespace loch::onesided {

// Whether the bytes at `shared` in registered memory, which other nodes may be writing, equal the key.
// `shared` is 8-byte aligned.
[[nodiscard]] bool is_key(const std::byte* shared, kv::Key key);

// A node's cache of remote entries, and the entry that one GET looks for (Nessie, 2017, 4.1.3). The cache
// pointer may be null: then look-ups find nothing and nothing is cached.
struct CachedEntry {
  kv::WordCache* cache = nullptr;
  std::uint64_t word = 0;  // the index word that names the entry
  // time until which a cached entry is valid: one expiry period after its index word was read
  Nanos expiry = 0;
};
// Looks the entry up in the cache. Returns nullopt if it is not cached, and Look::other_key if it has another
// key. Otherwise returns the value of `size` bytes; its first `kept` bytes are in memory, and stay there
// while `pin` exists.
[[nodiscard]] inline std::optional<Looked> look_in_cache(const CachedEntry& entry, Nanos now, kv::Key key,
                                                         std::uint32_t size, std::uint32_t kept,
                                                         fabric::OpStats* stats, kv::WordCache::Pin* pin) {
  if (entry.cache == nullptr) return std::nullopt;
  kv::WordCache::Pin hit = entry.cache->find(entry.word, now, entry.expiry);
  if (!hit) return std::nullopt;
  if (stats != nullptr) ++stats->cache_hits;
  if (std::memcmp(hit.key(), key.data, key.size) != 0) return Looked{Look::other_key, {}};
  *pin = std::move(hit);
  return Looked{Look::value, {pin->value(), size, kept}};
}
// Copies key and value from registered memory into the cache, unless the entry is cached already or all slots
// that could be evicted are pinned.
void fill_cache(const CachedEntry& entry, Nanos now, kv::Key key, const kv::ValueView& value);

}  // namespace loch::onesided
