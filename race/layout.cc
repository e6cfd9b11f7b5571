// Computes where a key can be, and writes and checks blocks.
#include "race/layout.h"

#include <algorithm>
#include <cstring>

#include "common/base/crc32c.h"
#include "common/base/scale.h"
#include "common/fabric/memory.h"
#include "common/kv/value.h"

namespace loch::race {
Places Shape::places(kv::Key key) const {
  const std::uint64_t first = kv::key_digest(key), second = mix64(first ^ 0x5241'4345);
  Places out;
  out.node = static_cast<fabric::NodeId>(scaled(mix64(second), nodes));
  const std::uint64_t buckets = 2 * groups;
  std::array<std::uint64_t, 2> number{};
  if (has_correlated_hashes) {
    // As published, one 32-bit number gives subtable, first bucket and fingerprint (its upper bits), so that
    // of a subtable's buckets only one in gcd(subtables, buckets) is the first bucket of any key.
    const auto lower = static_cast<std::uint32_t>(first), high = static_cast<std::uint32_t>(first >> 32);
    out.suffix = lower;
    out.fingerprint = lower >> 24;
    number = {lower % buckets, high % buckets};
  } else {
    out.suffix = static_cast<std::uint32_t>(second);
    out.fingerprint = static_cast<std::uint32_t>(second >> 56);
    number = {scaled(first, buckets), scaled(mix64(second ^ first), buckets)};
  }
  if (number[1] == number[0]) number[1] = (number[0] + 1) % buckets;
  for (std::size_t i = 0; i < number.size(); ++i) {
    out.is_odd[i] = number[i] % 2 != 0;
    out.bucket[i] = number[i] / 2 * group_bytes + (out.is_odd[i] ? bucket_bytes : 0);
  }
  return out;
}

void write_block(const BlockLayout& layout, std::byte* head, std::byte* crc, const BlockHead& header,
                 kv::Key key, const kv::ValueView& value, std::span<std::byte> scratch) {
  const std::span<std::byte> bytes = scratch.first(layout.checked_bytes());
  std::ranges::fill(bytes, std::byte{0});
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + layout.key_at(), key.data, key.size);
  const std::uint32_t kept = std::min(value.kept, layout.kept());
  if (kept > 0) std::memcpy(bytes.data() + layout.value_at(), value.data, kept);
  fabric::copy_to_shared(head, bytes.data(), bytes.size());
  const std::uint32_t sum = crc32c(bytes);
  fabric::copy_to_shared(crc, &sum, sizeof sum);
}

bool read_block(const BlockLayout& layout, const std::byte* head, const std::byte* crc,
                std::span<std::byte> out, BlockHead* header) {
  fabric::copy_from_shared(out.data(), head, layout.checked_bytes());
  std::uint32_t sum = 0;
  fabric::copy_from_shared(&sum, crc, sizeof sum);
  std::memcpy(header, out.data(), sizeof *header);
  return sum == crc32c(out.first(layout.checked_bytes()));
}

}  // namespace loch::race
