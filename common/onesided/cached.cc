// Compares keys with keys in registered memory, and looks entries up in a node's cache.
#include "common/onesided/cached.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/fabric/memory.h"

namespace loch::onesided {

bool is_key(const std::byte* shared, kv::Key key) {
  std::uint32_t at = 0;
  for (; at + 8 <= key.size; at += 8) {
    std::uint64_t wanted;
    std::memcpy(&wanted, key.data + at, 8);
    if (fabric::load_word(shared + at) != wanted) return false;
  }
  std::array<std::byte, 8> rest{};
  fabric::copy_from_shared(rest.data(), shared + at, key.size - at);
  return std::memcmp(rest.data(), key.data + at, key.size - at) == 0;
}

std::optional<Looked> look_in_cache(const CachedEntry& entry, Nanos now, kv::Key key, std::uint32_t size,
                                    std::uint32_t kept, fabric::OpStats* stats, kv::WordCache::Pin* pin) {
  if (entry.cache == nullptr) return std::nullopt;
  kv::WordCache::Pin hit = entry.cache->find(entry.word, now, entry.expiry);
  if (!hit) return std::nullopt;
  if (stats != nullptr) ++stats->cache_hits;
  if (std::memcmp(hit.key(), key.data, key.size) != 0) return Looked{Look::other_key, {}};
  *pin = std::move(hit);
  return Looked{Look::value, {pin->value(), size, kept}};
}

void fill_cache(const CachedEntry& entry, Nanos now, kv::Key key, const kv::ValueView& value) {
  if (entry.cache == nullptr) return;
  kv::WordCache::Pin place = entry.cache->reserve(entry.word, now);
  if (!place) return;
  std::memcpy(place.key(), key.data, key.size);
  fabric::copy_from_shared(place.value(), value.data, value.kept);
  entry.cache->publish(place, entry.word, entry.expiry);
}

}  // namespace loch::onesided
