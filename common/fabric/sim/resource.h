// Resources of the simulator's hardware model: a first-come-first-served server, a cache of contexts, a cache
// of keys, and a pool of objects. All are deterministic, and allocate nothing after warm-up.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "common/base/units.h"

namespace loch::fabric::sim {

// Picoseconds: whole nanoseconds would be too coarse for the time between two requests at 150 million a
// second.
using Picos = std::int64_t;
[[nodiscard]] constexpr Picos picos(Nanos span) { return span * 1000; }
[[nodiscard]] constexpr Picos picos(double ns) { return static_cast<Picos>(ns * 1000 + 0.5); }
[[nodiscard]] constexpr Nanos nanos_up(Picos span) { return (span + 999) / 1000; }

// A server with a first-come-first-served queue. Its functions are called at the instant of arrival, so that
// the order of events is the order of service.
struct Server {
  Picos free_at = 0;
  Picos busy = 0;  // busy time since the last reset of the counters
  // Serves work of `span` that arrives now; returns the time of its end.
  Picos serve(Picos now, Picos span) {
    free_at = (free_at > now ? free_at : now) + span;
    busy += span;
    return free_at;
  }
  // Returns the delay from now until the server becomes free, and occupies it for `span` from then on.
  Picos turn(Picos now, Picos span) { return serve(now, span) - span - now; }
};

// A context in a NIC's least-recently-used cache. It holds only a number: the links of the LRU list are in an
// array, which fits into the host's CPU cache, unlike the objects that own contexts.
struct CachedContext {
  std::uint32_t number = 0;  // index of the context in the NIC's cache; 0: the cache has not seen it yet
};
class ContextCache {
 public:
  explicit ContextCache(std::uint32_t entries = 0) : entries_(entries), links_(1) {}
  void prefetch(const CachedContext& context) const { __builtin_prefetch(&links_[context.number]); }
  // Makes the context the most recently used one; returns whether it was in the cache.
  bool touch(CachedContext* context) {
    if (entries_ == 0) return true;  // 0 entries: the cache is unlimited
    std::uint32_t number = context->number;
    if (number == 0) number = context->number = add();
    if (number == links_[ends].older) return true;
    const bool hit = links_[number].older != number;
    if (hit)
      unlink(number);
    else if (size_ == entries_)
      evict();
    else
      ++size_;
    link_newest(number);
    return hit;
  }

 private:
  // Index of the circular list's head, which is no context: its `older` is the most recently used context,
  // its `newer` the least recently used one.
  static constexpr std::uint32_t ends = 0;
  // An entry of the circular list of contexts; an entry whose context is not in the NIC's cache refers to
  // itself.
  struct Link {
    std::uint32_t newer = 0, older = 0;
  };
  std::uint32_t add() {
    const auto number = static_cast<std::uint32_t>(links_.size());
    links_.push_back({number, number});
    return number;
  }
  void unlink(std::uint32_t number) {
    const Link link = links_[number];
    links_[link.newer].older = link.older;
    links_[link.older].newer = link.newer;
  }
  void link_newest(std::uint32_t number) {
    const std::uint32_t second = links_[ends].older;
    links_[number] = {ends, second};
    links_[second].newer = number;
    links_[ends].older = number;
  }
  void evict() {
    const std::uint32_t victim = links_[ends].newer;
    unlink(victim);
    links_[victim] = {victim, victim};
  }
  std::uint32_t entries_;
  std::uint32_t size_ = 0;
  std::vector<Link> links_;
};

// An 8-way set-associative cache of page translations; a full set replaces its oldest entry.
class KeyCache {
 public:
  explicit KeyCache(std::uint32_t entries = 0) {
    if (entries == 0) return;
    std::uint32_t sets = 1;
    while (sets * ways < entries) sets *= 2;
    sets_.resize(sets);
    turn_.assign(sets, 0);
  }
  void prefetch(std::uint64_t key) const {
    if (!sets_.empty()) __builtin_prefetch(&sets_[set_of(key)]);
  }
  // Inserts the key (not 0); returns whether it was in the cache already, which is always true of a cache
  // with 0 entries.
  bool touch(std::uint64_t key) {
    std::uint64_t& recent = recent_[place(key)];
    if (recent == key || sets_.empty()) return true;
    const std::size_t at = set_of(key);
    Set& set = sets_[at];
    // All ways of the cache set are compared without a branch, because the position of the key is
    // unpredictable. The top bit of (x - 1) & ~x is set only for x = 0.
    std::uint64_t found = 0;
    for (const std::uint64_t way : set.ways) found |= ((way ^ key) - 1) & ~(way ^ key);
    if (found >> 63 == 0) {
      std::uint64_t& oldest = set.ways[turn_[at]++ & (ways - 1)];
      if (recent_[place(oldest)] == oldest) recent_[place(oldest)] = 0;
      oldest = key;
    }
    recent = key;
    return found >> 63 != 0;
  }

 private:
  static constexpr std::uint32_t ways = 8;
  struct alignas(64) Set {
    std::uint64_t ways[KeyCache::ways] = {};
  };
  [[nodiscard]] std::size_t set_of(std::uint64_t key) const { return mix64(key) & (sets_.size() - 1); }
  static std::size_t place(std::uint64_t key) { return (key ^ key >> 48) % 16; }
  std::vector<Set> sets_;
  std::vector<std::uint8_t> turn_;
  // recently found keys, indexed by a hash of the key: most are of pages that a worker uses all the time
  std::uint64_t recent_[16] = {};
};

// A pool of objects, linked by `next_free` when unused. Memory is allocated in blocks of objects, and freed
// with the pool.
template <typename T>
class Pool {
 public:
  [[nodiscard]] T* take() {
    if (free_ == nullptr) grow();
    T* object = free_;
    free_ = object->next_free;
    return object;
  }
  void give(T* object) {
    object->next_free = free_;
    free_ = object;
  }
  // Makes at least `objects` objects available before the run, so that take() does not allocate them during
  // it.
  void reserve(std::size_t objects) {
    for (std::size_t made = 0; made < objects; made += block) grow();
  }
  // Number of blocks allocated so far.
  [[nodiscard]] std::uint64_t allocations() const { return blocks_.size(); }

 private:
  static constexpr std::size_t block = 256;
  void grow() {
    blocks_.push_back(std::make_unique<T[]>(block));
    for (std::size_t i = block; i-- > 0;) give(&blocks_.back()[i]);
  }
  T* free_ = nullptr;
  std::vector<std::unique_ptr<T[]>> blocks_;
};

}  // namespace loch::fabric::sim
