// A set-associative index that may forget keys. A bucket has eight 8-byte slots in one cache line; a key has
// one bucket, and inserting into a full bucket evicts another key.
//
//   bit    0              48 (or 40)        63
//   slot   | offset + 1   | tag             |      a free slot is 0
//
// The tag is part of the key's hash. Since different keys may have the same tag, a search checks the log
// entry of every slot with the key's tag.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "herd_em/keyhash.h"

namespace loch::herd {

enum class Eviction : std::uint8_t {
  oldest,  // 2014: evicts the slot with the smallest log offset
  by_tag,  // 2016: evicts the slot whose number is the new key's tag modulo 8
  none,    // store mode, which forgets no key: a full bucket is chained to an additional one
};

class Index {
 public:
  static constexpr std::uint32_t ways = 8;
  using Bucket = std::array<std::uint64_t, ways>;
  static_assert(sizeof(Bucket) == 64);
  struct Place {
    std::uint64_t bucket = 0;
    std::uint32_t way = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  // `buckets` is a power of two. A slot of a bucket has 48 bits for the log offset if tags have up to 16
  // bits, and 40 if tags have 17 to 23 bits.
  Index(std::uint64_t buckets, std::uint32_t tag_bits, Eviction eviction);

  void prefetch(KeyHash key) const { __builtin_prefetch(&buckets_[key.bucket(home_buckets_)]); }

  // Finds a slot that has the key's tag (part of its hash), in the key's bucket or in a bucket chained to
  // that one, and for whose log offset `matches(offset)` is true; nullopt if there is none.
  template <typename Matches>
  [[nodiscard]] std::optional<Place> find(KeyHash key, Matches&& matches) const {
    const std::uint64_t tag = key.tag(tag_bits_);
    for (std::uint64_t at = key.bucket(home_buckets_); at != nowhere; at = behind(at)) {
      const Bucket& bucket = buckets_[at];
      for (std::uint32_t way = 0; way < ways; ++way) {
        const std::uint64_t slot = bucket[way];
        if (slot >> tag_shift_ == tag && slot != 0 && matches(offset_of(slot))) return Place{at, way};
      }
    }
    return std::nullopt;
  }
  // The log offset in the first slot with the key's tag (part of its hash), even if the slot holds another
  // key; nullopt if there is no such slot.
  [[nodiscard]] std::optional<std::uint64_t> first_offset(KeyHash key) const {
    const std::uint64_t tag = key.tag(tag_bits_);
    for (std::uint64_t at = key.bucket(home_buckets_); at != nowhere; at = behind(at)) {
      for (const std::uint64_t slot : buckets_[at]) {
        if (slot >> tag_shift_ == tag && slot != 0) return offset_of(slot);
      }
    }
    return std::nullopt;
  }
  // The first slot with the key's tag (part of its hash), even if it holds another key.
  [[nodiscard]] std::optional<Place> first_with_tag(KeyHash key) const {
    return find(key, [](std::uint64_t) { return true; });
  }
  [[nodiscard]] std::uint64_t offset(Place place) const {
    return offset_of(buckets_[place.bucket][place.way]);
  }
  void set(KeyHash key, Place place, std::uint64_t offset);
  // Calls `visit` for each used slot of the index with two numbers: the slot's bucket (in store mode, the
  // first bucket of its chain) and the log offset that the slot holds.
  template <typename Visit>
  void visit(Visit&& visit) const {
    for (std::uint64_t home = 0; home < home_buckets_; ++home) {
      for (std::uint64_t at = home; at != nowhere; at = behind(at)) {
        for (const std::uint64_t slot : buckets_[at]) {
          if (slot != 0) visit(home, offset_of(slot));
        }
      }
    }
  }
  [[nodiscard]] std::uint64_t home(KeyHash key) const { return key.bucket(home_buckets_); }
  void clear(Place place) { buckets_[place.bucket][place.way] = 0; }

  // The slot for a new entry of the key: the first (or with `takes_last` the last) slot of the key's bucket
  // that is free or whose log entry was overwritten. If there is none, it is the slot of a live entry, which
  // the new entry evicts (`evicts`), or in store mode a slot of a bucket that is added to the chain.
  struct Room {
    Place place;
    bool evicts = false;
  };
  template <typename IsLive>
  [[nodiscard]] Room room(KeyHash key, bool takes_last, IsLive&& is_live) {
    std::optional<Place> free;
    std::uint64_t last = key.bucket(home_buckets_);
    for (std::uint64_t at = last; at != nowhere; at = behind(at)) {
      last = at;
      for (std::uint32_t way = 0; way < ways; ++way) {
        if (buckets_[at][way] != 0 && is_live(offset_of(buckets_[at][way]))) continue;
        if (!free || takes_last) free = Place{at, way};
      }
    }
    if (free) return {*free, false};
    if (eviction_ == Eviction::none) return {{add_behind(last), 0}, false};
    return {{last, victim(key, buckets_[last])}, true};
  }

 private:
  static constexpr std::uint64_t nowhere = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t slot) const { return (slot & offset_mask_) - 1; }
  [[nodiscard]] std::uint32_t victim(KeyHash key, const Bucket& bucket) const;
  [[nodiscard]] std::uint64_t behind(std::uint64_t bucket) const {
    return eviction_ == Eviction::none ? behind_[bucket] : nowhere;
  }
  [[nodiscard]] std::uint64_t add_behind(std::uint64_t bucket);

  std::vector<Bucket> buckets_;
  std::vector<std::uint64_t> behind_;  // store mode: for each bucket, the next bucket of its chain
  std::uint64_t home_buckets_;
  std::uint32_t tag_bits_;
  std::uint32_t tag_shift_;
  std::uint64_t offset_mask_;
  Eviction eviction_;
};

}  // namespace loch::herd
