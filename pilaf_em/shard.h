// One server's table and extents: where they lie in its two regions, and what each change of them is,
// step by step. A change is planned before anything of it can be seen; then its steps are applied one
// after the other, with time between them in which clients READ. Pure memory: no fabric is called.
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

// One visible change of the shard's memory.
struct Step {
  enum class Kind : std::uint8_t {
    write_extent,  // key and value into an extent that no bucket names yet
    write_value,   // bytes [begin, end) of the value, in place
    poison,        // the first byte of the key, so that pointers to the extent fail
    write_fields,  // a bucket but for its guard, which is wrong until the write_bucket that follows
    write_bucket,
    close_buckets,  // buckets [begin, end) of the old table
    write_root,
    think,  // no visible change: the CPU time of building a table
  };
  Kind kind = Kind::think;
  std::uint64_t at = 0;              // extent: offset; bucket: offset in the table region
  std::uint64_t begin = 0, end = 0;  // poison: bytes of the extent that is free from here on are `end`
  Bucket bucket = {};
  Root root = {};
};

// A key and its value as a PUT brings them; `value.kept` bytes are there.
struct Item {
  std::span<const std::byte> key;
  kv::ValueView value;
  std::uint64_t crc = 0;  // of key and kept value
};
[[nodiscard]] std::uint64_t crc_of(std::span<const std::byte> key, const kv::ValueView& value);

enum class Planned : std::uint8_t { ready, not_found, table_full, extents_full };

class Shard {
 public:
  struct Counters {
    std::uint64_t keys = 0, inserts = 0, updates_in_place = 0, updates_replaced = 0, removes = 0, moved = 0,
                  table_growths = 0, extents_growths = 0;
  };
  // The regions outlive the shard.
  Shard(const Settings& settings, fabric::Region& table, fabric::Region& extents);

  // Plans; the steps are in steps(). Until they have been applied, nothing else is planned. An item's
  // bytes are needed until then.
  [[nodiscard]] Planned plan_put(const Item& item);
  [[nodiscard]] Planned plan_remove(std::span<const std::byte> key);
  // A plan that is not carried out: nothing of it was visible, and nothing of it stays.
  void drop_plan();
  // After table_full or extents_full. False: no memory is reserved for more. Clients are reset.
  [[nodiscard]] bool plan_growth(Planned why);

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  void apply(const Step& step);
  // Without any time between: preload, replay, tests.
  void apply_all();
  [[nodiscard]] Nanos cost(const Step& step, const fabric::CpuCosts& costs) const;
  // Keys hashed and compared while planning since the last call; for the CPU's time.
  struct Work {
    std::uint32_t hashes = 0, compares = 0;
  };
  [[nodiscard]] Work take_work() { return std::exchange(work_, {}); }

  // Puts at once, growing as often as it takes; false: no room.
  [[nodiscard]] bool put_now(const Item& item);
  void remove_now(std::span<const std::byte> key);

  // The key's current bucket.
  [[nodiscard]] std::optional<Bucket> find(std::span<const std::byte> key);
  [[nodiscard]] const std::byte* extent(std::uint64_t at) const { return extents_.at(at); }
  [[nodiscard]] const Root& root() const { return root_; }
  [[nodiscard]] Bucket bucket(std::uint64_t slot) const;
  [[nodiscard]] std::uint64_t bucket_at(std::uint64_t slot) const { return bucket_at(root_, slot); }
  [[nodiscard]] static std::uint64_t bucket_at(const Root& root, std::uint64_t slot) {
    return root.table_at + slot * bucket_bytes;
  }
  // Violated invariants, when no change is under way: a key that is there twice or where it does not belong,
  // extents that overlap or leaked, an odd version.
  [[nodiscard]] std::vector<std::string> audit() const;
  [[nodiscard]] const BuddyAllocator& allocator() const { return allocator_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  // A table by its geometry: the one in use, or one that is being built.
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
  // An extent for a plan.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  [[nodiscard]] Planned plan_update(const Item& item, std::uint64_t slot, const Bucket& old);
  [[nodiscard]] Planned plan_replacement(const Item& item, std::uint64_t slot, const Bucket& old);
  [[nodiscard]] Planned plan_insert(const Item& item, cuckoo::KeyHash& hash);
  // The slots that a walk frees the first of; empty: none within the hops.
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
  Root root_;                        // as clients see it
  std::uint64_t next_table_at_ = 0;  // reserved memory that no table has used
  std::vector<Step> steps_;
  struct Undo {  // what planning has changed already
    std::uint64_t version = 0, extent_at = 0, extent_bytes = 0;
    Counters counters;
  };
  Undo undo_;
  Item item_;
  Work work_;
  Counters counters_;
};

}  // namespace loch::pilaf
