// Entries as a GET compares, copies and caches them.
#pragma once

#include <optional>

#include "common/kv/word_cache.h"
#include "common/onesided/get.h"

namespace loch::onesided {

// Do the bytes in registered memory, which others may write meanwhile, equal the key? `shared` is 8-byte
// aligned.
[[nodiscard]] bool is_key(const std::byte* shared, kv::Key key);

// A node's cache of remote entries, as one GET uses it (2017, 4.1.3). A null cache answers nothing and takes
// nothing.
struct CachedEntry {
  kv::WordCache* cache = nullptr;
  std::uint64_t word = 0;  // which names the entry
  Nanos expiry = 0;        // the entry lives until then: E after the index word was read
};
// The cache's answer: none, other_key, or the value, `size` bytes of which `kept` are there; they are pinned
// by `pin`.
[[nodiscard]] std::optional<Looked> look_in_cache(const CachedEntry& entry, Nanos now, kv::Key key,
                                                  std::uint32_t size, std::uint32_t kept,
                                                  fabric::OpStats* stats, kv::WordCache::Pin* pin);
// Puts key and value, which lies in registered memory, into the cache, if it has a place for them.
void fill_cache(const CachedEntry& entry, Nanos now, kv::Key key, const kv::ValueView& value);

}  // namespace loch::onesided
