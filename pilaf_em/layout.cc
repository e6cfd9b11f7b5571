// Encodes and decodes buckets and roots.
#include "pilaf_em/layout.h"

#include <cstring>

#include "pilaf_em/checksum.h"

namespace loch::pilaf {
namespace {

template <typename T>
void put(std::byte* at, const T& value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
[[nodiscard]] T take(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

BucketBytes encode(const Bucket& bucket) {
  BucketBytes bytes{};
  put(&bytes[0], bucket.key_at);
  put(&bytes[8], bucket.value_at);
  put(&bytes[16], bucket.key_length);
  put(&bytes[24], bucket.value_length);
  put(&bytes[32], bucket.extent_crc);
  put(&bytes[40], bucket.capacity);
  bytes[44] = static_cast<std::byte>((bucket.hash << 1) | (bucket.is_used ? 1 : 0));
  put(&bytes[bucket_guard_at], crc64({bytes.data(), bucket_guard_at}));
  return bytes;
}

bool decode(const std::byte* bytes, Bucket* out) {
  out->key_at = take<std::uint64_t>(bytes);
  out->value_at = take<std::uint64_t>(bytes + 8);
  out->key_length = take<std::uint64_t>(bytes + 16);
  out->value_length = take<std::uint64_t>(bytes + 24);
  out->extent_crc = take<std::uint64_t>(bytes + 32);
  out->capacity = take<std::uint32_t>(bytes + 40);
  const auto flags = std::to_integer<std::uint8_t>(bytes[44]);
  out->is_used = (flags & 1) != 0;
  out->hash = flags >> 1;
  return take<std::uint64_t>(bytes + bucket_guard_at) == crc64({bytes, bucket_guard_at});
}

RootBytes encode(const Root& root) {
  RootBytes bytes{};
  put(&bytes[0], root.version);
  put(&bytes[8], root.epoch);
  put(&bytes[16], root.table_at);
  put(&bytes[24], root.slots);
  put(&bytes[32], root.extents_bytes);
  put(&bytes[root_guard_at], crc64({bytes.data(), root_guard_at}));
  return bytes;
}

bool decode(const std::byte* bytes, Root* out) {
  out->version = take<std::uint64_t>(bytes);
  out->epoch = take<std::uint32_t>(bytes + 8);
  out->table_at = take<std::uint64_t>(bytes + 16);
  out->slots = take<std::uint64_t>(bytes + 24);
  out->extents_bytes = take<std::uint64_t>(bytes + 32);
  return take<std::uint64_t>(bytes + root_guard_at) == crc64({bytes, root_guard_at});
}

}  // namespace loch::pilaf
