// One server's table and extents: their layout in the two regions, and the steps of each change. A change is
// planned before any of it is visible; then its steps are applied one after another, with time in between in
// which clients READ. Only memory is touched; no fabric is called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/region.h"
#include "pilaf_em/buddy.h"
#include "pilaf_em/layout.h"
#include "pilaf_em/settings.h"

namespace loch::pilaf {

// One step of a change, visible to clients as a whole.
struct Step {
  enum class Kind : std::uint8_t {
    write_extent,  // writes key and value into an extent that no bucket points to yet
    write_value,   // overwrites the bytes [begin, end) of a value in place
    poison,        // changes the first byte of the key, so that pointers to the extent fail its checksum
    // Writes a bucket's fields without its guard (checksum), which stays wrong until the write_bucket that
    // follows.
    write_fields,
    write_bucket,
    close_buckets,  // overwrites the buckets [begin, end) of the old table by buckets that are marked closed
    write_root,
    think,  // no visible change: CPU time for building a larger table
  };
  Kind kind = Kind::think;
  std::uint64_t at = 0;  // offset in the extents region (of an extent) or in the table region (of a bucket)
  std::uint64_t begin = 0, end = 0;  // poison: `end` is the size of the extent that becomes free
  Bucket bucket = {};
  Root root = {};
};

// A PUT's key and value; only `value.kept` bytes of the value are in memory.
struct Item {
  std::span<const std::byte> key;
  kv::ValueView value;
  std::uint64_t crc = 0;  // checksum of the key and of the value's bytes that are in memory
};
[[nodiscard]] std::uint64_t crc_of(std::span<const std::byte> key, const kv::ValueView& value);

enum class Planned : std::uint8_t { ready, not_found, table_full, extents_full };

class Shard {
 public:
  struct Counters {
    std::uint64_t keys = 0, inserts = 0, updates_in_place = 0, updates_replaced = 0, removes = 0, moved = 0,
                  table_growths = 0, extents_growths = 0;
  };
  // The regions have to outlive the shard.
  Shard(const Settings& settings, fabric::Region& table, fabric::Region& extents);

  // Plans a change into steps(). These have to be applied or dropped before the next plan, and the item's
  // bytes have to stay valid until then.
  [[nodiscard]] Planned plan_put(const Item& item);
  [[nodiscard]] Planned plan_remove(std::span<const std::byte> key);
  // Drops a plan without applying it, and undoes its allocations.
  void drop_plan();
  // Plans the growth that `why` (table_full or extents_full) requires. Returns false if the memory reserved
  // for growth is used up. Clients notice growth by closed buckets and by the epoch in the root (the table's
  // descriptor).
  [[nodiscard]] bool plan_growth(Planned why);

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  void apply(const Step& step);
  // Applies all steps at once, for preload, replay and tests.
  void apply_all();
  [[nodiscard]] Nanos cost(const Step& step, const fabric::CpuCosts& costs) const;
  // Number of keys that planning has hashed and compared since the last call of take_work(); the caller
  // charges CPU time for them.
  struct Work {
    std::uint32_t hashes = 0, compares = 0;
  };
  [[nodiscard]] Work take_work() { return std::exchange(work_, {}); }

  // Plans and applies a PUT at once, growing as often as needed; false if there is no room.
  [[nodiscard]] bool put_now(const Item& item);
  void remove_now(std::span<const std::byte> key);

  // The bucket that holds the key; nullopt if the key is absent.
  [[nodiscard]] std::optional<Bucket> find(std::span<const std::byte> key);
  [[nodiscard]] const std::byte* extent(std::uint64_t at) const { return extents_.at(at); }
  [[nodiscard]] const Root& root() const { return root_; }
  [[nodiscard]] Bucket bucket(std::uint64_t slot) const;
  [[nodiscard]] std::uint64_t bucket_at(std::uint64_t slot) const { return bucket_at(root_, slot); }
  [[nodiscard]] static std::uint64_t bucket_at(const Root& root, std::uint64_t slot) {
    return root.table_at + slot * bucket_bytes;
  }
  // Violated invariants, one line each, to be checked while no change is under way: a key stored twice or in
  // a wrong bucket, overlapping or leaked extents, an odd version.
  [[nodiscard]] std::vector<std::string> audit() const;
  [[nodiscard]] const BuddyAllocator& allocator() const { return allocator_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  // Position and hash functions of a table: the one in use, or one that is being built.
  struct Table {
    Root root;
    cuckoo::HashFamily family;
  };
  static constexpr std::uint64_t no_slot = ~std::uint64_t{0};
  [[nodiscard]] Bucket load(const Table& table, std::uint64_t slot) const;
  void store(std::uint64_t at, const Bucket& bucket);
  void store(const Root& root);
  [[nodiscard]] std::span<const std::byte> key_of(const Bucket& bucket) const;
  [[nodiscard]] static std::uint8_t short_hash(cuckoo::KeyHash& hash) {
    return static_cast<std::uint8_t>(hash.filter(7));
  }
  [[nodiscard]] std::uint64_t slot_of(cuckoo::KeyHash& hash, std::span<const std::byte> key, Bucket* found);
  void begin_plan();
  // Allocates an extent (space for a key and its value) for the plan, and remembers it for drop_plan().
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  [[nodiscard]] Planned plan_update(const Item& item, std::uint64_t slot, const Bucket& old);
  [[nodiscard]] Planned plan_replacement(const Item& item, std::uint64_t slot, const Bucket& old);
  [[nodiscard]] Planned plan_insert(const Item& item, cuckoo::KeyHash& hash);
  // The path of slots whose entries must shift to free the first slot; empty if there is none within `hops`
  // moves.
  [[nodiscard]] std::vector<std::uint64_t> walk(const Table& table, cuckoo::KeyHash& hash);
  void add_moves(const std::vector<std::uint64_t>& path, const Bucket& bucket);
  [[nodiscard]] Bucket bucket_for(const Item& item, std::uint64_t at, std::uint8_t hash) const;
  [[nodiscard]] bool grow_table();
  [[nodiscard]] bool grow_extents();
  [[nodiscard]] bool build(Table& larger);
  void add(const Step& step) { steps_.push_back(step); }
  void add_bucket(std::uint64_t slot, const Bucket& bucket) {
    if (settings_.guards_last)
      add({.kind = Step::Kind::write_fields, .at = bucket_at(slot), .bucket = bucket});
    add({.kind = Step::Kind::write_bucket, .at = bucket_at(slot), .bucket = bucket});
  }

  const Settings& settings_;
  fabric::Region& table_;
  fabric::Region& extents_;
  BuddyAllocator allocator_;
  Table current_;
  Root root_;                        // the published root, which clients READ
  std::uint64_t next_table_at_ = 0;  // offset in the table region behind all tables that were ever built
  std::vector<Step> steps_;
  struct Undo {  // state before the plan, for drop_plan()
    std::uint64_t version = 0, extent_at = 0, extent_bytes = 0;
    Counters counters;
  };
  Undo undo_;
  Item item_;
  Work work_;
  Counters counters_;
};

}  // namespace loch::pilaf
