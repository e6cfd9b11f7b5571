// A sharded LRU cache of remote entries: looking up, pinning, evicting.
#include "common/kv/word_cache.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace loch::kv {
namespace {

// To make room for a new entry, only this many of the least recently used entries are examined for one that
// is not pinned.
constexpr int most_eviction_tries = 8;

}  // namespace

WordCache::WordCache(std::uint64_t capacity, std::uint32_t key_bytes, std::uint32_t value_bytes)
    : key_bytes_(key_bytes), value_bytes_(value_bytes) {
  LOCH_CHECK_GT(capacity, 0U);
  // About one shard for each 64 entries, at most 16, so that no shard of a small cache is tiny.
  const std::uint64_t shards = std::bit_floor(std::clamp<std::uint64_t>(capacity / 64, 1, 16));
  const auto slots = static_cast<std::uint32_t>((capacity + shards - 1) / shards);
  for (std::uint64_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>(slots));
}

WordCache::Shard::Shard(std::uint32_t capacity)
    : buckets(std::bit_ceil(std::uint64_t{capacity}), none),
      capacity(capacity),
      slots(std::allocator<Slot>().allocate(capacity)) {}
WordCache::Shard::~Shard() {
  std::destroy_n(slots, used);
  std::allocator<Slot>().deallocate(slots, capacity);
}

void WordCache::unchain(Shard& shard, std::uint32_t slot) {
  Slot& gone = shard.slots[slot];
  if (gone.word == 0) return;
  std::uint32_t* link = &bucket_of(shard, mix64(gone.word));
  while (*link != slot) link = &shard.slots[*link].chain;
  *link = gone.chain;
  gone.word = 0;
}
void WordCache::unlink(Shard& shard, std::uint32_t slot) {
  Slot& gone = shard.slots[slot];
  (gone.newer == none ? shard.newest : shard.slots[gone.newer].older) = gone.older;
  (gone.older == none ? shard.oldest : shard.slots[gone.older].newer) = gone.newer;
  gone.newer = gone.older = none;
}
void WordCache::push_newest(Shard& shard, std::uint32_t slot) {
  shard.slots[slot].older = shard.newest;
  (shard.newest == none ? shard.oldest : shard.slots[shard.newest].newer) = slot;
  shard.newest = slot;
}
void WordCache::push_oldest(Shard& shard, std::uint32_t slot) {
  shard.slots[slot].newer = shard.oldest;
  (shard.oldest == none ? shard.newest : shard.slots[shard.oldest].older) = slot;
  shard.oldest = slot;
}

// To be called after another thread was found to hold the lock.
void WordCache::Lock::wait() {
  while (state_.exchange(awaited, std::memory_order_acquire) != open) state_.wait(awaited);
}

WordCache::Pin WordCache::find(std::uint64_t word, Nanos now, Nanos expiry) {
  const std::uint64_t hash = mix64(word);
  Shard& shard = shard_of(hash);
  const std::scoped_lock guard(shard.lock);
  const std::uint32_t at = lookup(shard, hash, word);
  if (at == none) return {};
  Slot& slot = shard.slots[at];
  unlink(shard, at);
  if (now >= slot.expiry) {
    unchain(shard, at);
    push_oldest(shard, at);
    return {};
  }
  slot.expiry = std::max(slot.expiry, expiry);
  push_newest(shard, at);
  return Pin(&slot, key_bytes_);
}

std::uint32_t WordCache::take_slot(Shard& shard, std::uint64_t hash, std::uint64_t word, Nanos now) {
  if (const std::uint32_t there = lookup(shard, hash, word); there != none) {
    if (now < shard.slots[there].expiry) return none;
    unchain(shard, there);  // the cached entry has expired: the caller may cache the word again
  }
  std::uint32_t at = none;
  if (shard.used < shard.capacity) {
    at = shard.used++;
    std::construct_at(&shard.slots[at]);
    shard.slots[at].bytes =
        std::make_unique_for_overwrite<std::byte[]>(std::size_t{key_bytes_} + value_bytes_);
  } else {
    at = shard.oldest;
    for (int i = 0; i < most_eviction_tries && at != none; ++i) {
      if (shard.slots[at].pins.load(std::memory_order_acquire) == 0) break;
      at = i + 1 < most_eviction_tries ? shard.slots[at].newer : none;
    }
    if (at == none) return none;
    unlink(shard, at);
    unchain(shard, at);
  }
  push_newest(shard, at);
  return at;
}

WordCache::Pin WordCache::reserve(std::uint64_t word, Nanos now) {
  const std::uint64_t hash = mix64(word);
  Shard& shard = shard_of(hash);
  const std::scoped_lock guard(shard.lock);
  const std::uint32_t at = take_slot(shard, hash, word, now);
  return at == none ? Pin() : Pin(&shard.slots[at], key_bytes_);
}

void WordCache::publish(Pin& pin, std::uint64_t word, Nanos expiry) {
  const std::uint64_t hash = mix64(word);
  Shard& shard = shard_of(hash);
  const std::scoped_lock guard(shard.lock);
  if (lookup(shard, hash, word) != none)
    return;  // another worker has cached the word meanwhile; the slot that the pin reserved stays unused
  chain(shard, hash, static_cast<std::uint32_t>(pin.slot_ - shard.slots), word, expiry);
}

std::uint64_t WordCache::size() const {
  std::uint64_t total = 0;
  for (const auto& shard : shards_) {
    const std::scoped_lock guard(shard->lock);
    for (std::uint32_t i = 0; i < shard->used; ++i) total += shard->slots[i].word != 0 ? 1 : 0;
  }
  return total;
}

}  // namespace loch::kv
