// Plans each change of a server's table and extents (keys and values) as steps, and applies the steps.
#include "pilaf_em/shard.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "pilaf_em/checksum.h"

namespace loch::pilaf {

std::uint64_t crc_of(std::span<const std::byte> key, const kv::ValueView& value) {
  return crc64({value.data, value.kept}, crc64(key));
}

Shard::Shard(const Settings& settings, fabric::Region& table, fabric::Region& extents)
    : settings_(settings),
      table_(table),
      extents_(extents),
      allocator_(settings.extents_most, settings.least_block),
      current_{{}, settings.family(settings.first_slots)} {
  allocator_.extend(settings.extents_start);
  current_.root = {.version = 0,
                   .epoch = 1,
                   .table_at = table_head,
                   .slots = settings.first_slots,
                   .extents_bytes = settings.extents_start};
  root_ = current_.root;
  next_table_at_ = table_head + settings.first_slots * bucket_bytes;
  for (std::uint64_t slot = 0; slot < root_.slots; ++slot) store(bucket_at(slot), Bucket{});
  store(root_);
}

Bucket Shard::load(const Table& table, std::uint64_t slot) const {
  BucketBytes bytes;
  fabric::copy_from_shared(bytes.data(), table_.at(bucket_at(table.root, slot)), bytes.size());
  Bucket bucket;
  const bool is_whole = decode(bytes.data(), &bucket);
  LOCH_CHECK(is_whole, "slot {} of the server's own table is broken", slot);
  return bucket;
}

Bucket Shard::bucket(std::uint64_t slot) const { return load(current_, slot); }

void Shard::store(std::uint64_t at, const Bucket& bucket) {
  const BucketBytes bytes = encode(bucket);
  fabric::copy_to_shared(table_.at(at), bytes.data(), bytes.size());
}

void Shard::store(const Root& root) {
  const RootBytes bytes = encode(root);
  fabric::copy_to_shared(table_.at(0), bytes.data(), bytes.size());
}

std::span<const std::byte> Shard::key_of(const Bucket& bucket) const {
  return {extents_.at(bucket.key_at), bucket.key_length};
}

// Finds the key's slot. Plain loads suffice because the server is the only writer of its table.
std::uint64_t Shard::slot_of(cuckoo::KeyHash& hash, std::span<const std::byte> key, Bucket* found) {
  const std::uint8_t filter = short_hash(hash);
  for (std::uint32_t i = 0; i < settings_.hash_functions; ++i) {
    const std::uint64_t slot = hash.candidate(i).slot;
    ++work_.hashes;
    *found = load(current_, slot);
    if (!found->is_used || found->hash != filter || found->key_length != key.size()) continue;
    ++work_.compares;
    const std::span<const std::byte> stored = key_of(*found);
    if (std::memcmp(stored.data(), key.data(), key.size()) == 0) return slot;
  }
  return no_slot;
}

std::optional<Bucket> Shard::find(std::span<const std::byte> key) {
  cuckoo::KeyHash hash = current_.family.hash(key);
  Bucket bucket;
  if (slot_of(hash, key, &bucket) == no_slot) return std::nullopt;
  return bucket;
}

Bucket Shard::bucket_for(const Item& item, std::uint64_t at, std::uint8_t hash) const {
  const std::uint64_t bytes = item.key.size() + item.value.size;
  return {.key_at = at,
          .value_at = at + item.key.size(),
          .key_length = item.key.size(),
          .value_length = item.value.size,
          .extent_crc = item.crc,
          .capacity = static_cast<std::uint32_t>(settings_.capacity_for(bytes)),
          .is_used = true,
          .hash = hash};
}

void Shard::begin_plan() {
  steps_.clear();
  undo_ = {.version = root_.version, .counters = counters_};
}

void Shard::drop_plan() {
  steps_.clear();
  if (undo_.extent_bytes != 0) allocator_.free(undo_.extent_at, undo_.extent_bytes);
  root_.version = undo_.version;
  counters_ = undo_.counters;
  undo_.extent_bytes = 0;
}

std::optional<std::uint64_t> Shard::allocate(std::uint64_t bytes) {
  const std::optional<std::uint64_t> at = allocator_.allocate(bytes);
  if (at) {
    undo_.extent_at = *at;
    undo_.extent_bytes = bytes;
  }
  return at;
}

Planned Shard::plan_put(const Item& item) {
  begin_plan();
  item_ = item;
  cuckoo::KeyHash hash = current_.family.hash(item.key);
  Bucket old;
  const std::uint64_t slot = slot_of(hash, item.key, &old);
  return slot == no_slot ? plan_insert(item, hash) : plan_update(item, slot, old);
}

Planned Shard::plan_update(const Item& item, std::uint64_t slot, const Bucket& old) {
  const bool fits = item.key.size() + item.value.size <= old.capacity;
  if (!fits || !settings_.updates_in_place) return plan_replacement(item, slot, old);
  // The value is written in two steps, so that a client's READ may fall between them.
  const std::uint64_t half = item.value.kept / 2;
  add({.kind = Step::Kind::write_value, .at = old.value_at, .begin = 0, .end = half});
  add({.kind = Step::Kind::write_value, .at = old.value_at, .begin = half, .end = item.value.kept});
  Bucket bucket = old;
  bucket.value_length = item.value.size;
  bucket.extent_crc = item.crc;
  add_bucket(slot, bucket);
  LOCH_PROBE("pilaf.server.updated-in-place");
  ++counters_.updates_in_place;
  return Planned::ready;
}

Planned Shard::plan_replacement(const Item& item, std::uint64_t slot, const Bucket& old) {
  const std::uint64_t capacity = settings_.capacity_for(item.key.size() + item.value.size);
  std::optional<std::uint64_t> at = allocate(capacity);
  std::uint64_t freed = old.capacity;
  // If no extent is free, reuses the key's old one if it is large enough.
  if (!at && allocator_.block_of(capacity) == allocator_.block_of(old.capacity)) {
    LOCH_PROBE("pilaf.server.extent-reused");
    at = old.key_at;
    freed = 0;
  } else if (!at) {
    return Planned::extents_full;
  }
  add({.kind = Step::Kind::poison, .at = old.key_at, .end = freed});
  add({.kind = Step::Kind::write_extent, .at = *at});
  add_bucket(slot, bucket_for(item, *at, old.hash));
  ++counters_.updates_replaced;
  return Planned::ready;
}

Planned Shard::plan_insert(const Item& item, cuckoo::KeyHash& hash) {
  std::vector<std::uint64_t> path;
  for (std::uint32_t i = 0; i < settings_.hash_functions && path.empty(); ++i) {
    const std::uint64_t slot = hash.candidate(i).slot;
    if (!load(current_, slot).is_used) path.push_back(slot);
  }
  if (path.empty()) path = walk(current_, hash);
  if (path.empty()) return Planned::table_full;
  const std::uint64_t capacity = settings_.capacity_for(item.key.size() + item.value.size);
  const std::optional<std::uint64_t> at = allocate(capacity);
  if (!at) return Planned::extents_full;
  add({.kind = Step::Kind::write_extent, .at = *at});
  add_moves(path, bucket_for(item, *at, short_hash(hash)));
  ++counters_.inserts;
  ++counters_.keys;
  return Planned::ready;
}

// The published path search (Pilaf 3.1). Starting with the key's first bucket, the entry in a bucket moves to
// a free one of its other buckets; if none is free, it moves to the bucket that follows its present one in
// its candidate order, and that bucket's entry is considered next. A slot that is on the path already is not
// used again. Returns the path; empty if there is none.
std::vector<std::uint64_t> Shard::walk(const Table& table, cuckoo::KeyHash& hash) {
  std::vector<std::uint64_t> path{hash.candidate(0).slot};
  while (path.size() <= settings_.hops) {
    cuckoo::KeyHash resident = table.family.hash(key_of(load(table, path.back())));
    std::uint32_t here = 0;
    for (std::uint32_t i = 0; i < settings_.hash_functions; ++i) {
      ++work_.hashes;
      const std::uint64_t slot = resident.candidate(i).slot;
      if (slot == path.back()) here = i;
      if (load(table, slot).is_used) continue;
      path.push_back(slot);
      return path;
    }
    std::uint64_t next = no_slot;
    for (std::uint32_t i = 1; i < settings_.hash_functions && next == no_slot; ++i) {
      const std::uint64_t slot = resident.candidate((here + i) % settings_.hash_functions).slot;
      if (std::ranges::find(path, slot) == path.end()) next = slot;
    }
    if (next == no_slot) return {};
    path.push_back(next);
  }
  return {};
}

// Adds steps that shift each entry of the path to the next slot of the path, and put the new key in the first
// slot.
void Shard::add_moves(const std::vector<std::uint64_t>& path, const Bucket& bucket) {
  const bool are_moved = path.size() > 1;
  if (are_moved) LOCH_PROBE("pilaf.server.key-moved");
  if (are_moved && settings_.rules.brackets_moves) {
    ++root_.version;
    add({.kind = Step::Kind::write_root, .root = root_});
  }
  std::vector<std::pair<std::uint64_t, Bucket>> writes;
  for (std::size_t i = path.size(); i-- > 1;) {
    writes.emplace_back(path[i], load(current_, path[i - 1]));
    ++counters_.moved;
  }
  writes.emplace_back(path[0], bucket);
  // `writes` begins with the last move of the path, so that every key is in at least one bucket at any time;
  // a known-bad variant reverses it.
  if (!settings_.rules.moves_backwards) std::ranges::reverse(writes);
  for (const auto& [slot, content] : writes) add_bucket(slot, content);
  if (!are_moved) return;
  root_.version += settings_.rules.brackets_moves ? 1 : 2;
  add({.kind = Step::Kind::write_root, .root = root_});
}

Planned Shard::plan_remove(std::span<const std::byte> key) {
  begin_plan();
  cuckoo::KeyHash hash = current_.family.hash(key);
  Bucket old;
  const std::uint64_t slot = slot_of(hash, key, &old);
  if (slot == no_slot) return Planned::not_found;
  add({.kind = Step::Kind::poison, .at = old.key_at, .end = old.capacity});
  add_bucket(slot, Bucket{});
  ++counters_.removes;
  --counters_.keys;
  return Planned::ready;
}

void Shard::apply(const Step& step) {
  switch (step.kind) {
    case Step::Kind::write_extent:
      fabric::copy_to_shared(extents_.at(step.at), item_.key.data(), item_.key.size());
      if (item_.value.kept != 0)
        fabric::copy_to_shared(extents_.at(step.at + item_.key.size()), item_.value.data, item_.value.kept);
      break;
    case Step::Kind::write_value:
      if (step.begin != step.end)
        fabric::copy_to_shared(extents_.at(step.at + step.begin), item_.value.data + step.begin,
                               step.end - step.begin);
      break;
    case Step::Kind::poison: {
      const auto first = static_cast<std::byte>(std::to_integer<unsigned>(*extents_.at(step.at)) + 1);
      if (settings_.rules.poisons) fabric::copy_to_shared(extents_.at(step.at), &first, 1);
      if (step.end != 0) allocator_.free(step.at, step.end);
      break;
    }
    case Step::Kind::write_fields: {
      const BucketBytes bytes = encode(step.bucket);
      fabric::copy_to_shared(table_.at(step.at), bytes.data(), bucket_guard_at);
      break;
    }
    case Step::Kind::write_bucket:
      store(step.at, step.bucket);
      break;
    case Step::Kind::close_buckets:
      for (std::uint64_t slot = step.begin; slot < step.end; ++slot)
        store(step.at + slot * bucket_bytes, Bucket::closed());
      break;
    case Step::Kind::write_root:
      store(step.root);
      break;
    case Step::Kind::think:
      break;
  }
  // Makes each step visible before the next step, and all steps before the reply. The published code has this
  // fence in only one of three places (known fault P6, docs/protocols/pilaf.md).
  std::atomic_thread_fence(std::memory_order_release);
}

void Shard::apply_all() {
  for (const Step& step : steps_) apply(step);
  steps_.clear();
}

Nanos Shard::cost(const Step& step, const fabric::CpuCosts& costs) const {
  const Nanos bucket = costs.copy(bucket_bytes) + costs.crc(bucket_guard_at);
  switch (step.kind) {
    case Step::Kind::write_extent:
      return costs.copy(item_.key.size() + item_.value.size);
    case Step::Kind::write_value:
      return costs.copy(item_.value.size / 2);
    case Step::Kind::poison:
      return costs.copy(1);
    case Step::Kind::write_fields:
      return costs.copy(bucket_guard_at) + costs.crc(bucket_guard_at);
    case Step::Kind::write_bucket:
      return settings_.guards_last ? costs.copy(bucket_bytes - bucket_guard_at) : bucket;
    case Step::Kind::close_buckets:
      return static_cast<Nanos>(step.end - step.begin) * bucket;
    case Step::Kind::write_root:
      return costs.copy(root_bytes) + costs.crc(root_guard_at);
    case Step::Kind::think:
      return static_cast<Nanos>(step.end) *
             (settings_.hash_functions * costs.hash(settings_.config.key_size) + bucket);
  }
  return 0;
}

bool Shard::put_now(const Item& item) {
  for (;;) {
    const Planned planned = plan_put(item);
    if (planned == Planned::ready) break;
    if (!plan_growth(planned)) return false;
    apply_all();
  }
  apply_all();
  work_ = {};  // preloading and replay charge no CPU time to the server
  return true;
}

void Shard::remove_now(std::span<const std::byte> key) {
  if (plan_remove(key) == Planned::ready) apply_all();
  work_ = {};
}

}  // namespace loch::pilaf
