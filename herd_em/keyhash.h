// The hash of 16 bytes that HERD sends and stores instead of a key (2014, sections 4.2 and 5.2), so that keys
// of other sizes than 16 bytes work too.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>

#include "common/kv/protocol.h"

namespace loch::herd {

constexpr std::uint32_t keyhash_bytes = 16;

struct KeyHash {
  std::uint64_t first = 0;
  // the last 8 bytes of a request in the layout of 2014; if their low byte is not 0, the request has arrived
  std::uint64_t second = 0;
  friend bool operator==(const KeyHash&, const KeyHash&) = default;

  // The partition, bucket and tag of a key are taken from disjoint bits of its hash.
  [[nodiscard]] std::uint32_t partition(std::uint32_t partitions) const {
    return static_cast<std::uint32_t>((second >> 8) % partitions);
  }
  [[nodiscard]] std::uint64_t bucket(std::uint64_t buckets) const { return first & (buckets - 1); }
  [[nodiscard]] std::uint32_t tag(std::uint32_t bits) const {
    return static_cast<std::uint32_t>(first >> (64 - bits));
  }
};
static_assert(sizeof(KeyHash) == keyhash_bytes);

// Hashes a key. `never_zero`: the second word's low byte is never 0 (so that no request looks like an empty
// request slot, known fault Q3 in docs/protocols/herd.md).
[[nodiscard]] inline KeyHash hash_of(kv::Key key, bool never_zero) {
  const XXH128_hash_t hash = XXH3_128bits(key.data, key.size);
  KeyHash out{hash.high64, hash.low64};
  if (never_zero && (out.second & 0xFF) == 0) out.second |= 1;
  return out;
}

}  // namespace loch::herd
