// 128-bit hashes of the states of an explored run.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "app/explore/run.h"

namespace loch::explore {

inline Hash hash_of(const void* data, std::size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.low64, hash.high64};
}

// Collects words to be hashed together; words beyond the capacity of 256 are folded into a hash. Allocates no
// memory, because an allocation would come from the arena of the explored run.
class Words {
 public:
  void add(std::uint64_t word) {
    if (count_ == words_.size()) fold();
    words_[count_++] = word;
  }
  void add(const Hash& hash) {
    add(hash.low);
    add(hash.high);
  }
  [[nodiscard]] Hash hash() const { return hash_of(words_.data(), count_ * sizeof(std::uint64_t)); }

 private:
  void fold() {
    const Hash so_far = hash();
    words_[0] = so_far.low;
    words_[1] = so_far.high;
    count_ = 2;
  }
  std::array<std::uint64_t, 256> words_;
  std::size_t count_ = 0;
};

}  // namespace loch::explore
