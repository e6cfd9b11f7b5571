// A set-associative index that forgets: buckets of eight 8-byte slots, one cache line each; a key's slot
// is in its one bucket, and when that is full another key's is evicted.
//
//   slot   0              48 (or 40)        63
//          | offset + 1   | tag             |      0: free
//
// The tag is a part of the key's hash; who looks for a key asks of every slot with its tag whether the log
// entry that it points to is the key's, because the first one may be another's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "herd_em/keyhash.h"

namespace loch::herd {

enum class Eviction : std::uint8_t {
  oldest,  // 2014: the slot with the smallest offset
  by_tag,  // 2016: slot number tag modulo 8
};

class Index {
 public:
  static constexpr std::uint32_t ways = 8;
  using Bucket = std::array<std::uint64_t, ways>;
  static_assert(sizeof(Bucket) == 64);

  // `buckets` is a power of two; tags have up to 23 bits (40-bit offsets), those of up to 16 leave 48.
  Index(std::uint64_t buckets, std::uint32_t tag_bits, Eviction eviction);

  [[nodiscard]] std::uint64_t buckets() const { return buckets_.size(); }
  void prefetch(KeyHash key) const { __builtin_prefetch(&buckets_[key.bucket(buckets_.size())]); }

  // The slots of the key's bucket that have its tag, in order; `matches(offset)` of each, until one is.
  // Its way, or none.
  template <typename Matches>
  [[nodiscard]] std::optional<std::uint32_t> find(KeyHash key, Matches&& matches) const {
    const Bucket& bucket = buckets_[key.bucket(buckets_.size())];
    for (std::uint32_t way = 0; way < ways; ++way) {
      if (has_tag(bucket[way], key) && matches(offset_of(bucket[way]))) return way;
    }
    return std::nullopt;
  }
  // The first slot with the key's tag, whosever it is.
  [[nodiscard]] std::optional<std::uint32_t> first_with_tag(KeyHash key) const {
    return find(key, [](std::uint64_t) { return true; });
  }
  [[nodiscard]] std::uint64_t offset(KeyHash key, std::uint32_t way) const {
    return offset_of(buckets_[key.bucket(buckets_.size())][way]);
  }
  void set(KeyHash key, std::uint32_t way, std::uint64_t offset);
  void clear(KeyHash key, std::uint32_t way) { buckets_[key.bucket(buckets_.size())][way] = 0; }

  // Where a new entry of the key goes: a slot that is free or whose entry `is_live` no more, the first (or
  // the last) such, else the victim's. `evicts` says which it was.
  struct Room {
    std::uint32_t way = 0;
    bool evicts = false;
  };
  template <typename IsLive>
  [[nodiscard]] Room room(KeyHash key, bool takes_last, IsLive&& is_live) const {
    const Bucket& bucket = buckets_[key.bucket(buckets_.size())];
    std::optional<std::uint32_t> free;
    for (std::uint32_t way = 0; way < ways; ++way) {
      if (bucket[way] != 0 && is_live(offset_of(bucket[way]))) continue;
      if (!free || takes_last) free = way;
    }
    if (free) return {*free, false};
    return {victim(key, bucket), true};
  }

 private:
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t slot) const { return (slot & offset_mask_) - 1; }
  [[nodiscard]] bool has_tag(std::uint64_t slot, KeyHash key) const {
    return slot != 0 && slot >> tag_shift_ == key.tag(tag_bits_);
  }
  [[nodiscard]] std::uint32_t victim(KeyHash key, const Bucket& bucket) const;

  std::vector<Bucket> buckets_;
  std::uint32_t tag_bits_;
  std::uint32_t tag_shift_;
  std::uint64_t offset_mask_;
  Eviction eviction_;
};

}  // namespace loch::herd
