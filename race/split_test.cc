// Tests splits of RACE's subtables: no key is lost before, during and after a split, also if the splitting
// client died in the middle; and what happens when the directory has its largest size.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/memory.h"
#include "race/lane.h"
#include "race/module.h"
#include "tests/support/store_cluster.h"
#include "tests/support/store_loads.h"

namespace loch::race {
namespace {

using support::make_fabric, support::small_deploy, support::StoreCluster, support::stride;

// A table of one subtable on each serving node.
StoreCluster::Shape small_table(std::uint32_t nodes, std::uint32_t workers, std::uint64_t preloaded,
                                std::map<std::string, std::string> options = {}) {
  StoreCluster::Shape shape{.config = small_deploy(nodes, workers, 0, preloaded)};
  shape.config.server_nodes = 1;
  shape.config.max_keys = 400;
  options.emplace("race.depth", "0");
  options.emplace("race.begin-smaller", "3");
  options.emplace("race.growth", "4");
  options.emplace("race.load-factor", "0.5");
  shape.options = std::move(options);
  return shape;
}

std::vector<std::string> audit(StoreCluster& cluster) { return cluster.store().audit({}); }

struct Misses {
  std::atomic<std::uint64_t> missed{0}, wrong{0}, refused{0}, reads{0};
  std::atomic<std::uint32_t> writing{0};
};

coro::Task<void> insert_range(support::Lane* lane, std::uint64_t first, std::uint64_t end, Misses* misses) {
  for (std::uint64_t key = first; key < end; ++key) {
    const support::Lane::Outcome put = co_await lane->put(key, key + stride);
    const support::Lane::Outcome got = co_await lane->get(key);
    if (put.result.status == kv::OpStatus::ok) {
      if (got.result.status != kv::OpStatus::ok || got.value != key + stride) ++misses->wrong;
      continue;
    }
    // A splitting thread that loses its core holds up the others' INSERTs until their attempts are used up.
    ++misses->refused;
    if (put.result.effect == kv::Effect::none && got.result.status == kv::OpStatus::ok) ++misses->wrong;
  }
  --misses->writing;
}

// GETs the preloaded keys, in turn, as long as other clients insert.
coro::Task<void> read_preloaded(support::Lane* lane, std::uint64_t keys, Misses* misses) {
  for (std::uint64_t i = 0; misses->writing > 0 || i < keys; ++i) {
    const support::Lane::Outcome got = co_await lane->get(i % keys);
    ++misses->reads;
    if (got.result.status == kv::OpStatus::not_found) ++misses->missed;
    if (got.is_torn || (got.result.status == kv::OpStatus::ok && got.value % stride != i % keys))
      ++misses->wrong;
    if (got.result.status == kv::OpStatus::ok || got.result.status == kv::OpStatus::not_found) continue;
    ++misses->refused;
  }
}

// Updates one key with growing numbers, and checks each time that the key holds the number written last.
coro::Task<void> count_up(support::Lane* lane, std::uint64_t key, Misses* misses) {
  for (std::uint64_t i = 1; misses->writing > 0; ++i) {
    const support::Lane::Outcome put = co_await lane->put(key, key + stride * i);
    if (put.result.status != kv::OpStatus::ok) {
      ++misses->refused;
      continue;
    }
    const support::Lane::Outcome got = co_await lane->get(key);
    if (got.result.status != kv::OpStatus::ok || got.value != key + stride * i) ++misses->wrong;
  }
}

class WhileSplitting : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, WhileSplitting, ::testing::Values("sim", "shm"));

// Four clients insert into a table that is much too small, two read preloaded keys, and two update one key
// each: every key can be read before, during and after the splits.
TEST_P(WhileSplitting, NothingIsLostWhileSubtablesSplit) {
  const auto module = make_module();
  constexpr std::uint64_t preloaded = 40, each = 80;
  StoreCluster cluster(make_fabric(GetParam(), {.nodes = 3}), *module, small_table(3, 4, preloaded));
  ASSERT_EQ(cluster.workers(), 8u);
  Misses misses;
  misses.writing = 4;
  for (std::uint64_t w = 0; w < 4; ++w) {
    const std::uint64_t first = preloaded + w * each;
    cluster.start(
        w, [&, first](support::Lane* lane) { return insert_range(lane, first, first + each, &misses); });
  }
  for (const std::size_t w : {4, 5})
    cluster.start(w, [&](support::Lane* lane) { return read_preloaded(lane, preloaded - 2, &misses); });
  for (const std::size_t w : {6, 7}) {
    cluster.start(w, [&, w](support::Lane* lane) { return count_up(lane, preloaded - 2 + w % 2, &misses); });
  }
  ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(misses.missed, 0u);
  EXPECT_EQ(misses.wrong, 0u);
  EXPECT_LT(misses.refused, 20u);
  EXPECT_GE(cluster.counter("splits"), 3);
  EXPECT_GT(cluster.counter("split_entries_moved"), 100);
  EXPECT_EQ(audit(cluster), std::vector<std::string>{});
}

kv::Key key_of(const std::uint64_t& number) {
  return {reinterpret_cast<const std::byte*>(&number), sizeof number};
}

StoreCluster::Shape with_small_keys(StoreCluster::Shape shape) {
  shape.config.key_size = sizeof(std::uint64_t);
  return shape;
}

coro::Task<void> split_of(kv::Client* client, std::uint64_t number, bool* is_done) {
  fabric::OpStats stats;
  const kv::OpResult split = co_await client->migrate(key_of(number), &stats);
  EXPECT_EQ(split.status, kv::OpStatus::ok);
  *is_done = true;
}

coro::Task<void> reads_after(support::Lane* lane, const bool* is_done, std::uint64_t key,
                             std::vector<std::uint32_t>* reads) {
  const support::Lane::Outcome before = co_await lane->get(key);
  reads->push_back(before.stats.read);
  while (!*is_done) co_await lane->worker().sleep_until(lane->worker().now() + 10'000);
  for (int i = 0; i < 2; ++i) {
    const support::Lane::Outcome after = co_await lane->get(key);
    EXPECT_EQ(after.value, key);
    reads->push_back(after.stats.read);
  }
}

std::uint64_t key_with_bit(const Shape& shape, bool is_set) {
  std::uint64_t number = 0;
  while ((shape.places(key_of(number)).suffix & 1) != (is_set ? 1 : 0)) ++number;
  return number;
}

// A client with a directory from before a split finds a key that was not moved at the same cost as ever. A
// key that was moved it finds by the bucket's header, with two more READs of buckets and one of the
// directory, the first time only.
TEST(OnSim, AStaleDirectoryCostsOneRoundTripOnce) {
  const auto module = make_module();
  for (const bool moves : {false, true}) {
    StoreCluster cluster(make_fabric("sim", {.nodes = 3}), *module, with_small_keys(small_table(3, 1, 20)));
    const auto& store = static_cast<const RaceStore&>(cluster.store());
    const std::uint64_t key = key_with_bit(store.settings().shape, moves);
    ASSERT_LT(key, 20u);
    bool is_done = false;
    std::vector<std::uint32_t> reads;
    kv::Client* client = &cluster.client(0);
    cluster.start(0, [&, client] { return split_of(client, key, &is_done); });
    cluster.start(1, [&, key](support::Lane* lane) { return reads_after(lane, &is_done, key, &reads); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(reads, (std::vector<std::uint32_t>{3, moves ? 6U : 3U, 3}));
    EXPECT_EQ(audit(cluster), std::vector<std::string>{});
  }
}

coro::Task<void> nothing() { co_return; }

coro::Task<void> scrub_and_read(StoreCluster* cluster, support::Lane* lane, std::uint64_t keys,
                                std::uint64_t* found) {
  const std::vector<kv::ClientId> dead = {{1, 0}};
  const kv::Repair repair = co_await cluster->store().scrub(lane->worker(), dead);
  EXPECT_TRUE(repair.is_complete);
  EXPECT_EQ(repair.counts.at("splits_taken_over"), 1u);
  for (std::uint64_t key = 0; key < keys; ++key) {
    const support::Lane::Outcome got = co_await lane->get(key);
    if (got.result.status == kv::OpStatus::ok && got.value == key) ++*found;
    const support::Lane::Outcome put = co_await lane->put(key, key + stride);
    if (put.result.status == kv::OpStatus::ok) ++*found;
  }
}

// What a client that dies in the middle of a split leaves: a locked directory entry, a bucket that has been
// moved, and one of which one word is frozen and copied. A scrub (repair after clients died) completes the
// split.
TEST(OnSim, AScrubGoesOnWithTheSplitOfADeadClient) {
  const auto module = make_module();
  constexpr std::uint64_t keys = 40;
  StoreCluster cluster(make_fabric("sim", {.nodes = 3}), *module, with_small_keys(small_table(3, 1, keys)));
  auto& store = static_cast<RaceStore&>(cluster.store());
  const Shape& shape = store.settings().shape;
  fabric::Region& table = *store.local(0).table;
  fabric::Region& blocks = *store.local(0).blocks;
  const auto moves = [&](Word word) {
    std::uint64_t number = 0;
    std::memcpy(&number, blocks.at(Entry::unpack(word).block * block_unit + BlockLayout::header_bytes), 8);
    return (shape.places(key_of(number)).suffix & 1) != 0;
  };
  const auto put = [&](std::uint64_t at, Word word) { fabric::store_word_release(table.at(at), word); };
  std::uint64_t buckets = 0;
  for (std::uint64_t at = 0; at < shape.subtable_bytes() && buckets < 2; at += bucket_bytes) {
    std::uint64_t moved = 0;
    for (std::uint64_t i = 1; i <= slots_per_bucket; ++i) {
      const Word word = fabric::load_word(table.at(at + 8 * i));
      // In the second bucket only one word has been frozen.
      if (word == 0 || !moves(word) || (buckets > 0 && moved > 0)) continue;
      put(at + 8 * i, word | frozen_bit);
      put(shape.subtable_bytes() + at + 8 * i, word);
      ++moved;
    }
    if (moved == 0) continue;
    if (buckets == 0) put(shape.subtable_bytes() + at, header_of(1, 1));
    put(at, buckets == 0 ? header_of(1, 0) : header_of(0, 0) | moving_bit);
    ++buckets;
  }
  ASSERT_EQ(buckets, 2u);
  put(shape.entry_at(0), directory_entry(0) | Word{1} << 16 | Word{1} << 40);
  EXPECT_EQ(audit(cluster), std::vector<std::string>{"node 0: subtable 0 is locked"});
  std::uint64_t found = 0;
  cluster.start(0, [] { return nothing(); });
  cluster.start(1, [&](support::Lane* lane) { return scrub_and_read(&cluster, lane, keys, &found); });
  ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(found, 2 * keys);
  EXPECT_EQ(cluster.counter("splits"), 1);
  EXPECT_EQ(audit(cluster), std::vector<std::string>{});
}

coro::Task<void> fill_up(support::Lane* lane, std::uint64_t keys, std::vector<kv::OpStatus>* ended,
                         std::uint64_t* lost) {
  std::vector<std::uint64_t> there;
  for (std::uint64_t key = 0; key < keys; ++key) {
    const support::Lane::Outcome put = co_await lane->put(key, key);
    ended->push_back(put.result.status);
    if (put.result.status == kv::OpStatus::ok) there.push_back(key);
  }
  for (std::size_t i = 0; i < there.size(); ++i) {
    const support::Lane::Outcome got = co_await lane->get(there[i]);
    if (got.value != there[i]) ++*lost;
  }
}

// A table splits until its directory has its largest size; from then on, `table full` is an ordinary result
// of an INSERT.
TEST(OnSim, AfterTheLastSplitATableIsFull) {
  const auto module = make_module();
  for (const std::uint32_t growth : {0U, 2U}) {
    StoreCluster::Shape shape =
        small_table(2, 1, 0, {{"race.growth", std::to_string(growth)}, {"race.begin-smaller", "0"}});
    shape.config.max_keys = 10;
    shape.options["race.spare-blocks"] = "400";
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, shape);
    std::vector<kv::OpStatus> ended;
    std::uint64_t lost = 0;
    cluster.start(0, [&](support::Lane* lane) { return fill_up(lane, 300, &ended, &lost); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    const auto stored = std::ranges::count(ended, kv::OpStatus::ok);
    EXPECT_EQ(stored + std::ranges::count(ended, kv::OpStatus::table_full), 300);
    EXPECT_EQ(lost, 0u);
    EXPECT_EQ(cluster.counter("splits"), (1U << growth) - 1);
    EXPECT_GT(stored, 14 << growth);
    EXPECT_LE(stored, 21 << growth);
    EXPECT_EQ(audit(cluster), std::vector<std::string>{});
  }
}

TEST(Module, ATableThatCannotSplitIsRefusedInOneLine) {
  const auto module = make_module();
  const auto refused = [&](std::map<std::string, std::string> set) {
    kv::Options options(module->options());
    for (const auto& [key, value] : set) EXPECT_TRUE(options.set(key, value).has_value());
    const auto store = module->deploy(small_deploy(2, 1, 0, 10), options, {});
    return store.has_value() ? std::string() : store.error().message;
  };
  EXPECT_EQ(refused({{"race.begin-smaller", "2"}}), "");
  EXPECT_EQ(refused({{"race.begin-smaller", "3"}}),
            "race.begin-smaller: 3 splits are due, and a subtable can be split 2 times; expected at most "
            "race.growth");
  EXPECT_EQ(refused({{"race.begin-smaller", "1"}, {"race.variant", "published"}}),
            "race.begin-smaller: the published variant cannot split; expected 0");
  // The published variant has the default growth without effect, and refuses one that is given.
  EXPECT_EQ(refused({{"race.variant", "published"}}), "");
  EXPECT_EQ(refused({{"race.variant", "published"}, {"race.growth", "0"}}), "");
  EXPECT_EQ(refused({{"race.variant", "published"}, {"race.growth", "2"}}),
            "race.growth: the published variant cannot split; expected 0");
  const std::string unshared =
      "race.split-share: the table cannot split; expected 1, or race.growth of at least 1";
  EXPECT_EQ(refused({{"race.split-share", "0.5"}}), "");
  EXPECT_EQ(refused({{"race.split-share", "1"}, {"race.growth", "0"}}), "");
  EXPECT_EQ(refused({{"race.split-share", "0.5"}, {"race.growth", "0"}}), unshared);
  EXPECT_EQ(refused({{"race.split-share", "0.5"}, {"race.variant", "published"}}), unshared);
}

}  // namespace
}  // namespace loch::race
