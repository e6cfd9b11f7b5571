// Growth of tables and extents (memory for keys and values). A region cannot be registered anew while clients
// use it, so memory for several growths is reserved. The published server resets its clients' connections
// when it grows; here it overwrites every bucket of the old table with a "closed" bucket before the new table
// accepts a PUT, and a client that READs a closed bucket READs the root (the table's descriptor) again.
#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "pilaf_em/shard.h"

namespace loch::pilaf {

bool Shard::plan_growth(Planned why) {
  steps_.clear();
  return why == Planned::table_full ? grow_table() : grow_extents();
}

// Copies all entries into a larger table that is not yet published. Returns false if a key finds no slot.
bool Shard::build(Table& larger) {
  for (std::uint64_t slot = 0; slot < larger.root.slots; ++slot)
    store(bucket_at(larger.root, slot), Bucket{});
  for (std::uint64_t slot = 0; slot < current_.root.slots; ++slot) {
    const Bucket bucket = load(current_, slot);
    if (!bucket.is_used) continue;
    cuckoo::KeyHash hash = larger.family.hash(key_of(bucket));
    std::vector<std::uint64_t> path;
    for (std::uint32_t i = 0; i < settings_.hash_functions && path.empty(); ++i) {
      const std::uint64_t candidate = hash.candidate(i).slot;
      if (!load(larger, candidate).is_used) path.push_back(candidate);
    }
    if (path.empty()) path = walk(larger, hash);
    if (path.empty()) return false;
    for (std::size_t i = path.size(); i-- > 1;)
      store(bucket_at(larger.root, path[i]), load(larger, path[i - 1]));
    Bucket moved = bucket;
    moved.hash = short_hash(hash);
    store(bucket_at(larger.root, path[0]), moved);
  }
  return true;
}

bool Shard::grow_table() {
  std::uint64_t slots = current_.root.slots;
  for (;;) {
    slots = static_cast<std::uint64_t>(settings_.table_growth * static_cast<double>(slots)) + 1;
    if (next_table_at_ + slots * bucket_bytes > table_.bytes()) return false;
    Table larger{root_, settings_.family(slots)};
    larger.root.table_at = next_table_at_;
    larger.root.slots = slots;
    // A larger table that cannot hold all keys is abandoned, and its memory is not reused.
    next_table_at_ += slots * bucket_bytes;
    if (!build(larger)) {
      LOCH_PROBE("pilaf.server.growth-too-small");
      continue;
    }
    add({.kind = Step::Kind::think, .end = counters_.keys});
    const Root old = current_.root;
    root_.table_at = larger.root.table_at;
    root_.slots = slots;
    ++root_.epoch;
    // a changed version makes a GET that is confirming a miss during this growth start over
    root_.version += 2;
    constexpr std::uint64_t at_once = 16;
    for (std::uint64_t slot = 0; settings_.rules.closes_tables && slot < old.slots; slot += at_once) {
      add({.kind = Step::Kind::close_buckets,
           .at = old.table_at,
           .begin = slot,
           .end = std::min(slot + at_once, old.slots)});
    }
    add({.kind = Step::Kind::write_root, .root = root_});
    larger.root = root_;
    current_ = larger;
    LOCH_PROBE("pilaf.server.grow-table");
    ++counters_.table_growths;
    return true;
  }
}

// Enlarges the memory for extents (keys and values); existing extents do not move.
bool Shard::grow_extents() {
  constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
  const std::uint64_t now = allocator_.arena_bytes();
  std::uint64_t larger = now < gibibyte ? 2 * now : now + now / 4;
  larger = std::min(larger / settings_.block * settings_.block, settings_.extents_most);
  if (larger <= now) return false;
  allocator_.extend(larger);
  root_.extents_bytes = larger;
  ++root_.epoch;
  add({.kind = Step::Kind::write_root, .root = root_});
  LOCH_PROBE("pilaf.server.grow-extents");
  ++counters_.extents_growths;
  return true;
}

}  // namespace loch::pilaf
