// A node's LRU cache of remote entries. The cache finds an entry by the 64-bit index word that names the
// entry (Nessie, 2017, 4.1.3). Entries are immutable and a word never names another entry, so that until its
// expiry a cached entry replaces a READ. A hit extends the expiry to one expiry period after the index word
// was read (Nessie, 2017, 4.3.1).
//
// The cache is shared by the node's workers, which are threads on some fabrics. It is split into shards, each
// with its own lock, which is held for a look-up and never while a value is copied out of the cache, nor
// while a large one is copied into it: a hit pins its entry, and a pinned entry is not evicted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/base/units.h"

namespace loch::kv {

class WordCache {
 public:
  // A cache for keys of `key_bytes` and the stored bytes of values of `value_bytes`, with room for `capacity`
  // entries, which are allocated on first use.
  WordCache(std::uint64_t capacity, std::uint32_t key_bytes, std::uint32_t value_bytes);
  WordCache(const WordCache&) = delete;

  class Pin;

  // Finds the entry that `word` names; null if it is not cached or has expired at `now`. If `expiry` is later
  // than the entry's expiry, the entry's expiry is set to `expiry`.
  [[nodiscard]] Pin find(std::uint64_t word, Nanos now, Nanos expiry);
  // Reserves a cache slot, into which the caller may write key and value of a new entry; other workers find
  // the entry after publish(). Null pin: the entry is cached already, or no slot could be evicted because the
  // examined ones are pinned.
  [[nodiscard]] Pin reserve(std::uint64_t word, Nanos now);
  void publish(Pin& pin, std::uint64_t word, Nanos expiry);
  // Whether entries are so small that insert() may copy them while it holds a lock.
  [[nodiscard]] bool has_small_entries() const { return key_bytes_ + value_bytes_ <= small_bytes; }
  // Does what reserve() and publish() do, with one look-up. `fill(key, value)` writes the entry.
  template <typename Fill>
  void insert(std::uint64_t word, Nanos now, Nanos expiry, Fill fill) {
    const std::uint64_t hash = mix64(word);
    Shard& shard = shard_of(hash);
    const std::scoped_lock guard(shard.lock);
    const std::uint32_t at = take_slot(shard, hash, word, now);
    if (at == none) return;
    Slot& slot = shard.slots[at];
    fill(slot.bytes.get(), slot.bytes.get() + key_bytes_);
    chain(shard, hash, at, word, expiry);
  }

  [[nodiscard]] std::uint64_t size() const;

 private:
  static constexpr std::uint32_t none = 0xFFFF'FFFF;
  static constexpr std::uint32_t small_bytes = 256;
  // A mutex whose lock and unlock are inlined, as long as no thread waits for it.
  class Lock {
   public:
    void lock() {
      std::uint32_t expected = open;
      if (!state_.compare_exchange_strong(expected, held, std::memory_order_acquire)) [[unlikely]]
        wait();
    }
    void unlock() {
      if (state_.exchange(open, std::memory_order_release) == awaited) [[unlikely]]
        state_.notify_one();
    }

   private:
    static constexpr std::uint32_t open = 0, held = 1, awaited = 2;
    void wait();
    std::atomic<std::uint32_t> state_{open};
  };
  struct Slot {
    std::uint64_t word = 0;  // 0: reserved or unused
    Nanos expiry = 0;
    std::uint32_t chain = none;  // index of the next entry in the same hash bucket
    std::uint32_t newer = none, older = none;
    std::atomic<std::uint32_t> pins{0};
    std::unique_ptr<std::byte[]> bytes;  // the key, followed by the value
  };
  struct Shard {
    explicit Shard(std::uint32_t capacity);
    ~Shard();
    Shard(const Shard&) = delete;
    Lock lock;
    std::vector<std::uint32_t> buckets;
    const std::uint32_t capacity;
    // Memory for `capacity` slots, of which the first `used` exist: a cache that is never filled, such as
    // those of a short simulation, writes to no more of it.
    Slot* const slots;
    std::uint32_t used = 0;
    std::uint32_t newest = none, oldest = none;
  };

  // `hash` is mix64(word).
  [[nodiscard]] Shard& shard_of(std::uint64_t hash) { return *shards_[hash & (shards_.size() - 1)]; }
  [[nodiscard]] static std::uint32_t& bucket_of(Shard& shard, std::uint64_t hash) {
    return shard.buckets[(hash >> 32) & (shard.buckets.size() - 1)];
  }
  [[nodiscard]] static std::uint32_t lookup(Shard& shard, std::uint64_t hash, std::uint64_t word) {
    std::uint32_t at = bucket_of(shard, hash);
    while (at != none && shard.slots[at].word != word) at = shard.slots[at].chain;
    return at;
  }
  // The slot for a word that is to be cached; none if it is cached already, or no slot can be evicted.
  [[nodiscard]] std::uint32_t take_slot(Shard& shard, std::uint64_t hash, std::uint64_t word, Nanos now);
  // Lets the word's slot be found.
  static void chain(Shard& shard, std::uint64_t hash, std::uint32_t at, std::uint64_t word, Nanos expiry) {
    Slot& slot = shard.slots[at];
    slot.word = word;
    slot.expiry = expiry;
    std::uint32_t& bucket = bucket_of(shard, hash);
    slot.chain = bucket;
    bucket = at;
  }
  void unchain(Shard& shard, std::uint32_t slot);
  void unlink(Shard& shard, std::uint32_t slot);
  void push_newest(Shard& shard, std::uint32_t slot);
  void push_oldest(Shard& shard, std::uint32_t slot);

  std::uint32_t key_bytes_;
  std::uint32_t value_bytes_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// Protects a cached entry from eviction while the Pin exists. Movable.
class WordCache::Pin {
 public:
  Pin() = default;
  Pin(Pin&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)), key_bytes_(other.key_bytes_) {}
  Pin& operator=(Pin&& other) noexcept {
    release();
    slot_ = std::exchange(other.slot_, nullptr);
    key_bytes_ = other.key_bytes_;
    return *this;
  }
  ~Pin() { release(); }
  void release() {
    if (slot_ != nullptr) slot_->pins.fetch_sub(1, std::memory_order_release);
    slot_ = nullptr;
  }
  explicit operator bool() const { return slot_ != nullptr; }
  [[nodiscard]] std::byte* key() const { return slot_->bytes.get(); }
  [[nodiscard]] std::byte* value() const { return slot_->bytes.get() + key_bytes_; }

 private:
  friend WordCache;
  Pin(Slot* slot, std::uint32_t key_bytes) : slot_(slot), key_bytes_(key_bytes) {
    slot->pins.fetch_add(1, std::memory_order_relaxed);
  }
  Slot* slot_ = nullptr;
  std::uint32_t key_bytes_ = 0;
};

}  // namespace loch::kv
