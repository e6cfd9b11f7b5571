// Compares keys with keys in registered memory, and fills a node's cache.
#include "common/onesided/cached.h"

#include <cstring>

#include "common/fabric/memory.h"
#include "common/fabric/same_bytes.h"

namespace loch::onesided {

bool is_key(const std::byte* shared, kv::Key key) { return fabric::same_bytes(shared, key.data, key.size); }

void fill_cache(const CachedEntry& entry, Nanos now, kv::Key key, const kv::ValueView& value) {
  if (entry.cache == nullptr) return;
  const auto fill = [&](std::byte* cached_key, std::byte* cached_value) {
    std::memcpy(cached_key, key.data, key.size);
    fabric::copy_from_shared(cached_value, value.data, value.kept);
  };
  if (entry.cache->has_small_entries()) return entry.cache->insert(entry.word, now, entry.expiry, fill);
  kv::WordCache::Pin place = entry.cache->reserve(entry.word, now);
  if (!place) return;
  fill(place.key(), place.value());
  entry.cache->publish(place, entry.word, entry.expiry);
}

}  // namespace loch::onesided
