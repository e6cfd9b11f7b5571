// Resources of the model: a first-come-first-served server, a cache of contexts, a cache of keys,
// and a free list of objects. All deterministic; none allocates once warm.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/rng.h"
#include "common/base/units.h"

namespace loch::fabric::sim {

// Picoseconds: at 150 million requests a second nanoseconds are too coarse for a gap.
using Picos = std::int64_t;
[[nodiscard]] constexpr Picos picos(Nanos span) { return span * 1000; }
[[nodiscard]] constexpr Picos picos(double ns) { return static_cast<Picos>(ns * 1000 + 0.5); }
[[nodiscard]] constexpr Nanos nanos_up(Picos span) { return (span + 999) / 1000; }

// One server, first come first served. It is asked at the instant of arrival, so that the order of
// the events is the order of service.
struct Server {
  Picos free_at = 0;
  Picos busy = 0;  // since the last reset of the counters
  // Serves work of `span` that arrives now; returns when it is done.
  Picos serve(Picos now, Picos span) {
    free_at = (free_at > now ? free_at : now) + span;
    busy += span;
    return free_at;
  }
  // Returns when the server becomes free, as a delay from now, and occupies it for `span`.
  Picos turn(Picos now, Picos span) { return serve(now, span) - span - now; }
};

// Least recently used out of the contexts that it is shown. It numbers them, and keeps their order in
// an array of its own, which stays in this machine's cache where the contexts' owners would not.
struct CachedContext {
  std::uint32_t number = 0;  // in the cache of its NIC; 0: not shown yet
};
class ContextCache {
 public:
  explicit ContextCache(std::uint32_t entries = 0) : entries_(entries), links_(1) {}
  void prefetch(const CachedContext& context) const { __builtin_prefetch(&links_[context.number]); }
  // True when it was there; it is the newest now.
  bool touch(CachedContext* context) {
    if (entries_ == 0) return true;  // no limit
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
  static constexpr std::uint32_t ends = 0;  // its `older` is the newest of all, its `newer` the oldest
  // A ring through `ends`; what is not in the cache points to itself.
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

// Keys of page translations: 8-way sets, oldest replaced first within a set.
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
  // True when the key (not 0) was there; it is there afterwards. Without entries it always is.
  bool touch(std::uint64_t key) {
    std::uint64_t& recent = recent_[place(key)];
    if (recent == key || sets_.empty()) return true;
    const std::size_t at = set_of(key);
    Set& set = sets_[at];
    // Every way is looked at, without a branch: where the key stands cannot be foretold. The top bit of
    // (x - 1) & ~x is set for x = 0 alone.
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
  std::uint64_t recent_[16] = {};  // keys that are in their sets, by their last bits: a worker's own pages
};

// Objects linked by `next_free`, made in blocks and never given back before the end.
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
  // Allocates objects in advance.
  void reserve(std::size_t objects) {
    for (std::size_t made = 0; made < objects; made += block) grow();
  }
  // Blocks taken from the system so far.
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
