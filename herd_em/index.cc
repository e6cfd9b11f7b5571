// Inserts into, and evicts from, the buckets of HERD's index.
#include "herd_em/index.h"

#include <bit>

#include "common/base/check.h"

namespace loch::herd {

Index::Index(std::uint64_t buckets, std::uint32_t tag_bits, Eviction eviction)
    : buckets_(buckets),
      behind_(eviction == Eviction::none ? buckets : 0, nowhere),
      home_buckets_(buckets),
      tag_bits_(tag_bits),
      tag_shift_(tag_bits > 16 ? 40 : 48),
      offset_mask_((std::uint64_t{1} << tag_shift_) - 1),
      eviction_(eviction) {
  LOCH_CHECK(std::has_single_bit(buckets), "{} buckets are no power of two", buckets);
  LOCH_CHECK(tag_bits >= 1 && tag_bits <= 23, "tags of {} bits", tag_bits);
}

std::uint64_t Index::add_behind(std::uint64_t bucket) {
  const std::uint64_t made = buckets_.size();
  buckets_.emplace_back();
  behind_.push_back(nowhere);
  behind_[bucket] = made;
  return made;
}

void Index::set(KeyHash key, Place place, std::uint64_t offset) {
  LOCH_CHECK_LT(offset, offset_mask_);
  buckets_[place.bucket][place.way] = std::uint64_t{key.tag(tag_bits_)} << tag_shift_ | (offset + 1);
}

std::uint32_t Index::victim(KeyHash key, const Bucket& bucket) const {
  if (eviction_ == Eviction::by_tag) return key.tag(tag_bits_) % ways;
  std::uint32_t oldest = 0;
  for (std::uint32_t way = 1; way < ways; ++way) {
    if (offset_of(bucket[way]) < offset_of(bucket[oldest])) oldest = way;
  }
  return oldest;
}

}  // namespace loch::herd
