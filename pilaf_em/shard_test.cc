// Tests one server's table step by step: what a client READs between any two steps of a change.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pilaf_em/checksum.h"
#include "pilaf_em/module.h"
#include "pilaf_em/shard.h"

namespace loch::pilaf {
namespace {

constexpr std::uint32_t key_size = 16;

// A shard in its own memory, with a reader that uses only what a client knows.
class Bench {
 public:
  struct Shape {
    std::uint64_t keys = 100;
    std::uint32_t value_size = 100, kept = 100;
    std::map<std::string, std::string> options;
    std::string mutant;
  };
  explicit Bench(const Shape& shape) {
    const auto module = make_module("pilaf");
    kv::Options options(module->options());
    for (const auto& [key, value] : shape.options) {
      const auto set = options.set(key, value);
      EXPECT_TRUE(set.has_value()) << set.error().message;
    }
    kv::DeployConfig config;
    config.client_workers = config.server_workers = 1;
    config.key_size = key_size;
    config.value_size = shape.value_size;
    config.kept_value_bytes = shape.kept;
    config.keys = config.max_keys = shape.keys;
    auto decided = decide("pilaf", config, options, shape.mutant);
    LOCH_CHECK(decided.has_value(), "{}", decided.error().message);
    settings_ = std::move(*decided);
    const std::uint64_t table_bytes = table_head + settings_->slots_reserved * bucket_bytes;
    fabric::Elision elision;
    if (settings_->is_elided())
      elision = {.entry_bytes = settings_->block, .keep_head = (key_size + shape.kept + 7) / 8 * 8};
    table_memory_.resize(table_bytes / 8 + 1);
    extents_memory_.resize(elision.physical_bytes(settings_->extents_most) / 8 + 1);
    table_ =
        std::make_unique<fabric::Region>(0, 0, "table", bytes(table_memory_), table_bytes, fabric::Elision{});
    extents_ = std::make_unique<fabric::Region>(0, 1, "extents", bytes(extents_memory_),
                                                settings_->extents_most, elision);
    shard_ = std::make_unique<Shard>(*settings_, *table_, *extents_);
  }

  [[nodiscard]] Shard& shard() { return *shard_; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }

  static std::string key(std::uint64_t number) {
    std::string text(key_size, '\0');
    std::memcpy(text.data(), &number, sizeof number);
    return text;
  }
  // The bucket of a key that is present.
  [[nodiscard]] Bucket bucket_of(std::uint64_t number) {
    const std::optional<Bucket> found = shard().find(span(key(number)));
    LOCH_CHECK(found.has_value(), "key {} is not there", number);
    return *found;
  }
  static std::span<const std::byte> span(const std::string& text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  }
  // An item that points to the given strings, which have to outlive the steps that are planned from the item.
  [[nodiscard]] Item item(const std::string& key, const std::string& value) const {
    const auto size = static_cast<std::uint32_t>(value.size());
    const kv::ValueView view{span(value).data(), size, std::min(size, settings_->kept())};
    return {.key = span(key), .value = view, .crc = crc_of(span(key), view)};
  }
  [[nodiscard]] bool put(std::uint64_t number, const std::string& value) {
    const std::string name = key(number);
    return shard_->put_now(item(name, value));
  }

  // Plans a PUT, and grows the table or the extents (memory for keys and values) first as often as the PUT
  // needs; the caller applies the PUT's steps.
  void plan(const Item& item) {
    for (;;) {
      const Planned planned = shard_->plan_put(item);
      if (planned == Planned::ready) return;
      ASSERT_TRUE(shard_->plan_growth(planned));
      shard_->apply_all();
    }
  }
  // Applies the planned steps, and calls `look` after each one.
  template <typename Look>
  void step_through(Look look) {
    const std::vector<Step> steps = shard_->steps();
    for (const Step& step : steps) {
      shard_->apply(step);
      look(step);
    }
  }

  // What a client's look-up that starts at this root (the table's descriptor) returns. `is_busy`: a checksum
  // failed, and a client would start over.
  struct Seen {
    bool is_busy = false, is_closed = false;
    std::optional<std::string> value;
  };
  [[nodiscard]] Root root() const {
    Root root;
    EXPECT_TRUE(decode(table_->at(0), &root));
    return root;
  }
  [[nodiscard]] Seen look(std::uint64_t number, const Root& root) const {
    const std::string name = key(number);
    const cuckoo::HashFamily family = settings_->family(root.slots);
    cuckoo::KeyHash hash = family.hash(span(name));
    for (std::uint32_t i = 0; i < 3; ++i) {
      Bucket bucket;
      if (!decode(table_->at(Shard::bucket_at(root, hash.candidate(i).slot)), &bucket))
        return {.is_busy = true};
      if (bucket.is_closed()) return {.is_closed = true};
      if (!bucket.is_used) continue;
      if (!is_whole(bucket)) return {.is_busy = true};
      if (std::memcmp(extents_->at(bucket.key_at), name.data(), key_size) != 0) continue;
      const auto kept = std::min<std::uint64_t>(bucket.value_length, settings_->kept());
      return {.value = std::string(reinterpret_cast<const char*>(extents_->at(bucket.value_at)), kept)};
    }
    return {};
  }
  [[nodiscard]] Seen look(std::uint64_t number) const { return look(number, root()); }
  [[nodiscard]] bool is_whole(const Bucket& bucket) const {
    const auto kept = std::min<std::uint64_t>(bucket.value_length, settings_->kept());
    return crc64({extents_->at(bucket.key_at), bucket.key_length + kept}) == bucket.extent_crc;
  }

 private:
  static std::byte* bytes(std::vector<std::uint64_t>& words) {
    return reinterpret_cast<std::byte*>(words.data());
  }
  std::unique_ptr<const Settings> settings_;
  std::vector<std::uint64_t> table_memory_, extents_memory_;
  std::unique_ptr<fabric::Region> table_, extents_;
  std::unique_ptr<Shard> shard_;
};

std::string value_of(std::uint64_t number, std::size_t bytes = 100) {
  return std::string(bytes, static_cast<char>('a' + number % 26));
}

TEST(Shard, PutsAndRemoves) {
  Bench bench({.keys = 200});
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(bench.put(i, value_of(i)));
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(bench.look(i).value, value_of(i));
  EXPECT_FALSE(bench.look(777).value.has_value());
  EXPECT_EQ(bench.shard().counters().keys, 200u);
  EXPECT_EQ(bench.shard().counters().table_growths, 0u) << "75 % of a 3-way table";
  ASSERT_TRUE(bench.put(5, value_of(99)));
  EXPECT_EQ(bench.look(5).value, value_of(99));
  bench.shard().remove_now(Bench::span(Bench::key(5)));
  EXPECT_FALSE(bench.look(5).value.has_value());
  EXPECT_EQ(bench.shard().plan_remove(Bench::span(Bench::key(5))), Planned::not_found);
  EXPECT_EQ(bench.shard().counters().keys, 199u);
}

// When 75 % of the slots are in use, a GET probes 1.6 buckets on average (Pilaf 3.4).
TEST(Shard, ProbesAsThePaperSays) {
  Bench bench({.keys = 20'000, .value_size = 16, .kept = 16});
  for (std::uint64_t i = 0; i < 20'000; ++i) ASSERT_TRUE(bench.put(i, value_of(i, 16)));
  EXPECT_EQ(bench.shard().counters().table_growths, 0u);
  const cuckoo::HashFamily family = bench.settings().family(bench.root().slots);
  std::uint64_t probes = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::string key = Bench::key(i);
    cuckoo::KeyHash hash = family.hash(Bench::span(key));
    const Bucket mine = bench.bucket_of(i);
    std::uint32_t rank = 0;
    while (bench.shard().bucket(hash.candidate(rank).slot).key_at != mine.key_at) ++rank;
    probes += rank + 1;
  }
  EXPECT_NEAR(static_cast<double>(probes) / 20'000, 1.6, 0.1);
}

// While an insertion moves other keys, each of them is found, unharmed, after every step.
TEST(Shard, AMovedKeyIsInOneBucketAtLeast) {
  std::uint64_t moves = 0;
  Bench bench({.keys = 300, .value_size = 20, .kept = 20, .options = {{"pilaf.fill", "0.88"}}});
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string key = Bench::key(i), value = value_of(i, 20);
    bench.plan(bench.item(key, value));
    const std::size_t steps = bench.shard().steps().size();
    moves += steps > 2 ? steps - 4 : 0;
    bench.step_through([&](const Step&) {
      for (std::uint64_t other = 0; other < i; ++other)
        ASSERT_EQ(bench.look(other).value, value_of(other, 20));
    });
    ASSERT_EQ(bench.look(i).value, value);
  }
  EXPECT_GT(moves, 20u);
  EXPECT_EQ(moves, bench.shard().counters().moved);
}

// The version is odd exactly while entries are being moved.
TEST(Shard, TheVersionBracketsMoves) {
  Bench bench({.keys = 300, .value_size = 20, .kept = 20, .options = {{"pilaf.fill", "0.88"}}});
  std::uint64_t bracketed = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string key = Bench::key(i), value = value_of(i, 20);
    bench.plan(bench.item(key, value));
    const bool has_moves = bench.shard().steps().size() > 2;
    const std::uint64_t before = bench.root().version;
    bench.step_through([&](const Step& step) {
      if (has_moves && step.kind == Step::Kind::write_bucket) {
        EXPECT_EQ(bench.root().version, before + 1);
        ++bracketed;
      }
    });
    EXPECT_EQ(bench.root().version, before + (has_moves ? 2 : 0));
  }
  EXPECT_GT(bracketed, 20u);
}

TEST(Shard, MovesFromTheFirstOnLoseAKeyForAWhile) {
  Bench bench({.keys = 300,
               .value_size = 20,
               .kept = 20,
               .options = {{"pilaf.fill", "0.88"}},
               .mutant = "moves-first-to-last"});
  std::uint64_t absent = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string key = Bench::key(i), value = value_of(i, 20);
    bench.plan(bench.item(key, value));
    bench.step_through([&](const Step&) {
      for (std::uint64_t other = 0; other < i; ++other) absent += bench.look(other).value.has_value() ? 0 : 1;
    });
  }
  EXPECT_GT(absent, 0u);
}

// While a value is overwritten in place, a reader gets the old value, a failing checksum, or the new value.
TEST(Shard, AnOverwrittenValueIsNeverHalf) {
  Bench bench({});
  ASSERT_TRUE(bench.put(1, value_of(1)));
  const std::string key = Bench::key(1), newer = value_of(2);
  bench.plan(bench.item(key, newer));
  bool was_busy = false;
  bench.step_through([&](const Step&) {
    const Bench::Seen seen = bench.look(1);
    was_busy = was_busy || seen.is_busy;
    EXPECT_TRUE(seen.is_busy || seen.value == value_of(1) || seen.value == newer);
  });
  EXPECT_TRUE(was_busy);
  EXPECT_EQ(bench.look(1).value, newer);
  EXPECT_EQ(bench.shard().counters().updates_in_place, 1u);
}

// With --pilaf.guard last, a bucket's fields are written before its guard (checksum): a client that READs the
// bucket in between starts over, and never gets a value other than the old and the new one.
TEST(Shard, ABucketWhoseGuardComesLastIsBusyMeanwhile) {
  Bench bench({.keys = 300,
               .value_size = 20,
               .kept = 20,
               .options = {{"pilaf.fill", "0.88"}, {"pilaf.guard", "last"}}});
  std::uint64_t broken = 0, moved = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::string key = Bench::key(i), value = value_of(i, 20);
    bench.plan(bench.item(key, value));
    moved += bench.shard().steps().size() > 5 ? 1 : 0;
    bench.step_through([&](const Step& step) {
      for (std::uint64_t other = 0; other < i; ++other) {
        const Bench::Seen seen = bench.look(other);
        if (seen.is_busy) {
          ASSERT_EQ(step.kind, Step::Kind::write_fields);
          ++broken;
        } else {
          ASSERT_EQ(seen.value, value_of(other, 20));
        }
      }
    });
    ASSERT_EQ(bench.look(i).value, value);
  }
  EXPECT_GT(moved, 0u);
  EXPECT_GT(broken, 0u);
  const std::string key = Bench::key(7), value = value_of(8, 20);
  bench.plan(bench.item(key, value));
  bench.step_through([&](const Step& step) {
    const Bench::Seen seen = bench.look(7);
    EXPECT_EQ(seen.is_busy, step.kind != Step::Kind::write_bucket);
    if (!seen.is_busy) EXPECT_EQ(seen.value, value);
  });
}

TEST(Shard, AFreedExtentIsPoisoned) {
  for (const bool removes : {true, false}) {
    Bench bench({.options = {{"pilaf.update", "replace"}}});
    ASSERT_TRUE(bench.put(1, value_of(1)));
    const Bucket stale = bench.bucket_of(1);
    ASSERT_TRUE(bench.is_whole(stale));
    if (removes)
      bench.shard().remove_now(Bench::span(Bench::key(1)));
    else
      ASSERT_TRUE(bench.put(1, value_of(2)));
    EXPECT_FALSE(bench.is_whole(stale));
    const std::optional<Bucket> fresh = bench.shard().find(Bench::span(Bench::key(1)));
    EXPECT_EQ(fresh.has_value(), !removes);
    if (fresh) EXPECT_NE(fresh->key_at, stale.key_at);
  }
}

TEST(Shard, AValueThatDoesNotFitMoves) {
  Bench bench({.value_size = 1000, .kept = 1000});
  ASSERT_TRUE(bench.put(1, value_of(1, 20)));
  const Bucket small = bench.bucket_of(1);
  EXPECT_EQ(small.capacity, bench.settings().capacity_for(key_size + 20));
  // an extent (key and value) for 36 bytes has room for 45 (1.25 times as many), so that the longer value
  // fits
  ASSERT_TRUE(bench.put(1, value_of(2, 29)));
  EXPECT_EQ(bench.bucket_of(1).key_at, small.key_at);
  ASSERT_TRUE(bench.put(1, value_of(3, 30)));
  const Bucket large = bench.bucket_of(1);
  EXPECT_EQ(large.capacity, bench.settings().capacity_for(key_size + 30));
  EXPECT_EQ(bench.look(1).value, value_of(3, 30));
  EXPECT_FALSE(bench.is_whole(small));
  EXPECT_EQ(bench.shard().counters().updates_replaced, 1u);
}

// Drops plans of all kinds, as a failed write of the log does: inserts with and without moves, overwrites,
// replacements, removals. A dropped plan can be planned again and leaves no allocation behind.
TEST(Shard, ADroppedPlanLeavesNothing) {
  for (const char* update : {"in-place", "replace"}) {
    Bench bench({.keys = 100, .options = {{"pilaf.update", update}, {"pilaf.fill", "0.9"}}});
    Shard& shard = bench.shard();
    std::uint64_t with_moves = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::uint64_t number = i % 100;  // keys 0 to 99 are inserted, then overwritten
      const std::string name = Bench::key(number), value = value_of(i);
      const Item item = bench.item(name, value);
      bench.plan(item);  // grows the table if needed
      with_moves += i < 100 && shard.steps().size() > 2 ? 1 : 0;
      shard.drop_plan();
      const std::uint64_t free = shard.allocator().free_bytes(), keys = shard.counters().keys,
                          version = shard.root().version, moved = shard.counters().moved;
      const Root root = bench.root();
      const auto seen = bench.look(number).value;
      ASSERT_EQ(shard.plan_put(item), Planned::ready);
      shard.drop_plan();
      if (seen) {
        ASSERT_EQ(shard.plan_remove(Bench::span(name)), Planned::ready);
        shard.drop_plan();
      }
      EXPECT_TRUE(shard.steps().empty());
      EXPECT_EQ(shard.allocator().free_bytes(), free);
      EXPECT_EQ(shard.counters().keys, keys);
      EXPECT_EQ(shard.counters().moved, moved);
      EXPECT_EQ(shard.root().version, version);
      EXPECT_EQ(bench.root(), root);
      EXPECT_EQ(bench.look(number).value, seen);
      ASSERT_TRUE(bench.put(number, value));
      EXPECT_EQ(bench.look(number).value, value);
      EXPECT_EQ(shard.counters().keys, std::min<std::uint64_t>(i + 1, 100));
    }
    EXPECT_GT(with_moves, 0u);
  }
}

// A table that starts with 3 slots grows; a reader with an older root (the table's descriptor) is told to
// READ the root, and no key is lost.
TEST(Shard, GrowsAndClosesTheOldTable) {
  Bench bench({.keys = 500,
               .value_size = 20,
               .kept = 20,
               .options = {{"pilaf.initial-slots", "3"}, {"pilaf.table-growths", "10"}}});
  const Root first = bench.root();
  for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(bench.put(i, value_of(i, 20)));
  EXPECT_GE(bench.shard().counters().table_growths, 7u);
  EXPECT_GT(bench.root().epoch, first.epoch);
  for (std::uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(bench.look(i).value, value_of(i, 20));
    EXPECT_TRUE(bench.look(i, first).is_closed);
  }
}

// Extents double up to 1 GiB, and then grow by a quarter, up to the maximum.
TEST(Shard, ExtentsDoubleUpToAGibibyteAndThenGrowByAQuarter) {
  constexpr std::uint64_t mebibyte = 1 << 20;
  Bench bench({.keys = 10,
               .value_size = 1 << 20,
               .kept = 16,
               .options = {{"pilaf.extents-start", "256M"}, {"pilaf.extents-growths", "3"}}});
  EXPECT_EQ(bench.root().extents_bytes, 256 * mebibyte);
  for (const std::uint64_t expected : {512, 1024, 1280, 1600, 2000, 2048}) {
    ASSERT_TRUE(bench.shard().plan_growth(Planned::extents_full));
    bench.shard().apply_all();
    EXPECT_EQ(bench.root().extents_bytes, expected * mebibyte);
  }
  EXPECT_FALSE(bench.shard().plan_growth(Planned::extents_full)) << "no room is left";
}

// While a table is closed bucket by bucket, a client that starts in the old table finds each key or is told
// to READ the root (the table's descriptor).
TEST(Shard, WhileATableIsClosedKeysAreFoundOrTheReaderIsSentOn) {
  Bench bench({.keys = 60,
               .value_size = 20,
               .kept = 20,
               .options = {{"pilaf.initial-slots", "70"}, {"pilaf.table-growths", "3"}}});
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(bench.put(i, value_of(i, 20)));
  const Root old = bench.root();
  ASSERT_TRUE(bench.shard().plan_growth(Planned::table_full));
  bench.step_through([&](const Step&) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Bench::Seen seen = bench.look(i, old);
      EXPECT_TRUE(seen.is_closed || seen.value == value_of(i, 20));
      if (bench.root().slots != old.slots) EXPECT_EQ(bench.look(i).value, value_of(i, 20));
    }
  });
  EXPECT_NE(bench.root().slots, old.slots);
}

TEST(Shard, ExtentsGrowInPlaceUntilTheReserveIsUsedUp) {
  Bench bench(
      {.keys = 8,
       .options = {
           {"pilaf.extents-start", "256"}, {"pilaf.extents-growths", "1"}, {"pilaf.initial-slots", "100"}}});
  const std::uint64_t most = bench.settings().extents_most;
  std::uint64_t stored = 0;
  while (stored < 100 && bench.put(stored, value_of(stored))) ++stored;
  EXPECT_EQ(stored, most / bench.settings().block);
  EXPECT_EQ(bench.root().extents_bytes, most);
  EXPECT_GT(bench.shard().counters().extents_growths, 1u);
  EXPECT_EQ(bench.shard().allocator().free_bytes(), 0u);
  for (std::uint64_t i = 0; i < stored; ++i) EXPECT_EQ(bench.look(i).value, value_of(i));
  // With no free extent (space for a key and its value), updates still work in the keys' own extents.
  ASSERT_TRUE(bench.put(0, value_of(7)));
  EXPECT_EQ(bench.look(0).value, value_of(7));
}

TEST(Shard, AFullTableRefusesAndKeepsWhatItHas) {
  Bench bench({.keys = 20,
               .value_size = 20,
               .kept = 20,
               .options = {{"pilaf.initial-slots", "3"}, {"pilaf.table-growths", "1"}}});
  std::uint64_t stored = 0;
  while (stored < 100 && bench.put(stored, value_of(stored, 20))) ++stored;
  EXPECT_GE(stored, 5u);
  EXPECT_LE(stored, 7u);
  for (std::uint64_t i = 0; i < stored; ++i) EXPECT_EQ(bench.look(i).value, value_of(i, 20));
}

TEST(Shard, ElidedValuesAreCheckedByWhatIsKept) {
  Bench bench({.keys = 50, .value_size = 4000, .kept = 32});
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(bench.put(i, value_of(i, 4000)));
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(bench.look(i).value, value_of(i, 32));
  const std::string key = Bench::key(3), newer = value_of(20, 4000);
  bench.plan(bench.item(key, newer));
  bool was_busy = false;
  bench.step_through([&](const Step&) { was_busy = was_busy || bench.look(3).is_busy; });
  EXPECT_TRUE(was_busy) << "the checksum covers the kept bytes";
  EXPECT_EQ(bench.look(3).value, value_of(20, 32));
}

TEST(Shard, WhatIsPutBeforehandIsNobodysWork) {
  Bench bench({});
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(bench.put(i, value_of(i)));
  bench.shard().remove_now(Bench::span(Bench::key(1)));
  EXPECT_EQ(bench.shard().take_work().hashes, 0u);
  const std::string key = Bench::key(2), value = value_of(2);
  bench.plan(bench.item(key, value));
  const Shard::Work work = bench.shard().take_work();
  EXPECT_GE(work.hashes, 1u);
  EXPECT_LE(work.hashes, 3u);
  EXPECT_EQ(work.compares, 1u);
}

TEST(Shard, StepsCostWhatTheyDo) {
  Bench bench({.value_size = 1000, .kept = 1000});
  fabric::CpuCosts costs;
  costs.copy_byte = 1;
  costs.crc_byte = 10;
  const std::string key = Bench::key(1), value = value_of(1, 1000);
  bench.plan(bench.item(key, value));
  Nanos sum = 0;
  for (const Step& step : bench.shard().steps()) sum += bench.shard().cost(step, costs);
  EXPECT_EQ(sum, key_size + 1000 + 53 + 450) << "the extent's checksum is the client's work";
}

}  // namespace
}  // namespace loch::pilaf
