// What HERD knows of a key: 16 bytes of hash (2014, 4.2 and 5.2). The hash is sent and stored in the
// key's place; keys of other sizes than 16 bytes are served alike.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>

#include "common/kv/protocol.h"

namespace loch::herd {

constexpr std::uint32_t keyhash_bytes = 16;

struct KeyHash {
  std::uint64_t first = 0;
  std::uint64_t second = 0;  // the last 8 bytes of a 2014 request: its low byte announces the request
  friend bool operator==(const KeyHash&, const KeyHash&) = default;

  // Disjoint bits decide partition, bucket and tag.
  [[nodiscard]] std::uint32_t partition(std::uint32_t partitions) const {
    return static_cast<std::uint32_t>((second >> 8) % partitions);
  }
  [[nodiscard]] std::uint64_t bucket(std::uint64_t buckets) const { return first & (buckets - 1); }
  [[nodiscard]] std::uint32_t tag(std::uint32_t bits) const {
    return static_cast<std::uint32_t>(first >> (64 - bits));
  }
};
static_assert(sizeof(KeyHash) == keyhash_bytes);

// `never_zero`: no hash has a low byte of 0 in its second word (Q3).
[[nodiscard]] inline KeyHash hash_of(kv::Key key, bool never_zero) {
  const XXH128_hash_t hash = XXH3_128bits(key.data, key.size);
  KeyHash out{hash.high64, hash.low64};
  if (never_zero && (out.second & 0xFF) == 0) out.second |= 1;
  return out;
}

}  // namespace loch::herd
