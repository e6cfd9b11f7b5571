// Checks the invariants of a server's table and extents (keys and values) while no change is under way.
#include <fmt/format.h>

#include <map>
#include <set>

#include "common/fabric/memory.h"
#include "pilaf_em/shard.h"

namespace loch::pilaf {

std::vector<std::string> Shard::audit() const {
  std::vector<std::string> wrong;
  std::set<std::vector<std::byte>> keys;
  std::map<std::uint64_t, std::uint64_t> extents;  // offset of each extent's block -> end of the block
  std::uint64_t used = 0;
  for (std::uint64_t slot = 0; slot < current_.root.slots; ++slot) {
    BucketBytes bytes;
    fabric::copy_from_shared(bytes.data(), table_.at(bucket_at(current_.root, slot)), bytes.size());
    Bucket bucket;
    if (!decode(bytes.data(), &bucket)) {
      wrong.push_back(fmt::format("the guard of slot {} is wrong", slot));
      continue;
    }
    if (bucket.is_closed()) wrong.push_back(fmt::format("slot {} of the table in use is closed", slot));
    if (!bucket.is_used) continue;
    const std::span<const std::byte> key = key_of(bucket);
    if (!keys.emplace(key.begin(), key.end()).second)
      wrong.push_back(fmt::format("the key in slot {} is there twice", slot));
    cuckoo::KeyHash hash = current_.family.hash(key);
    bool is_candidate = false;
    for (std::uint32_t i = 0; i < settings_.hash_functions; ++i)
      is_candidate = is_candidate || hash.candidate(i).slot == slot;
    if (!is_candidate) wrong.push_back(fmt::format("the key in slot {} does not belong there", slot));
    const std::uint64_t block = allocator_.block_of(bucket.capacity);
    used += block;
    if (!extents.emplace(bucket.key_at, bucket.key_at + block).second)
      wrong.push_back(fmt::format("two keys have the extent at {}", bucket.key_at));
  }
  std::uint64_t end = 0;
  for (const auto& [begin, ends] : extents) {
    if (begin < end) wrong.push_back(fmt::format("the extent at {} overlaps another", begin));
    end = ends;
  }
  if (used + allocator_.free_bytes() != allocator_.arena_bytes()) {
    wrong.push_back(fmt::format("{} bytes of extents are in use, {} are free, of {}", used,
                                allocator_.free_bytes(), allocator_.arena_bytes()));
  }
  if (keys.size() != counters_.keys)
    wrong.push_back(fmt::format("{} keys, counted {}", keys.size(), counters_.keys));
  if (root_.version % 2 != 0) wrong.push_back("the version says that entries are being moved");
  return wrong;
}

}  // namespace loch::pilaf
