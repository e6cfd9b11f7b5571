// Tests RACE hashing: layouts, requests per operation, reuse of freed blocks, and loads on a simulated fabric
// (sim) and over shared memory (shm).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "common/base/crc32c.h"
#include "common/fabric/memory.h"
#include "race/lane.h"
#include "race/module.h"
#include "tests/support/store_cluster.h"
#include "tests/support/store_loads.h"
#include "tests/support/store_run.h"

namespace loch::race {
namespace {

using support::make_fabric, support::run_store, support::small_deploy, support::StoreCluster,
    support::StoreRun, support::total;

kv::Key key_of(const std::uint64_t& number) {
  return {reinterpret_cast<const std::byte*>(&number), sizeof number};
}

// Slot words and directory entries have room for the largest values of their fields, and unpack to what was
// packed.
static_assert(Entry::unpack(Entry{201, 17, 123'456'789, 4'095, true}.pack()) ==
              Entry{201, 17, 123'456'789, 4'095, true});
static_assert(Entry{255, 255, (std::uint64_t{1} << 34) - 1, 4'095, false}.pack() >> 62 == 0);
static_assert(is_free(parked(Entry{201, 17, 5, 9, true}.pack())) && !is_pending(parked(~Word{0})));
static_assert(Entry::unpack(parked(Entry{201, 17, 5, 9, true}.pack())) == Entry{0, 0, 5, 9, false});
static_assert(entry_depth(directory_entry(7)) == 7 && locked_by(directory_entry(7)) == nobody);

TEST(Layout, TheChecksumIsCrc32c) {
  const char text[] = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text, 9))), 0xE306'9283U);
}

TEST(Layout, ABlockOfTheArtifactIsOneUnit) {
  const BlockLayout small{8, 8, 8};
  EXPECT_EQ(small.bytes(), 64u);
  EXPECT_EQ(small.value_at(), 24u);
  EXPECT_EQ(small.crc_at(), 60u);
  EXPECT_FALSE(small.elision().on());
  const BlockLayout large{16, 1'024, 32};
  EXPECT_EQ(large.bytes() % block_unit, 0u);
  EXPECT_EQ(large.elision().entry_bytes, large.bytes());
  EXPECT_EQ(large.elision().keep_head, 16u + 16u + 32u);
}

// The blocks with which the workers begin lie in the node's region, behind those of preloaded records, and no
// two of them overlap.
TEST(FreeBlocks, OfAllWorkersLieApart) {
  const auto module = make_module();
  for (const char* variant : {"hardened", "published"}) {
    StoreCluster cluster(make_fabric("sim", {.nodes = 3}), *module,
                         {.config = small_deploy(3, 2, 0, 24), .options = {{"race.variant", variant}}});
    auto& store = static_cast<RaceStore&>(cluster.store());
    const Settings& settings = store.settings();
    const std::uint64_t units = settings.block.units();
    ASSERT_GT(units, 1u);
    for (const fabric::NodeId node : {0, 1, 2}) {
      std::vector<std::uint64_t> numbers;
      for (const fabric::NodeId driver : {0, 1, 2}) {
        for (const auto& own : store.local(driver).workers) {
          EXPECT_EQ(own->left(node), settings.client_blocks);
          while (const std::optional<Block> block = own->free[node].take_oldest())
            numbers.push_back(block->number);
        }
      }
      std::ranges::sort(numbers);
      ASSERT_EQ(numbers.size(), settings.clients() * settings.client_blocks);
      EXPECT_GE(numbers.front(), settings.preload_blocks * units);
      EXPECT_LE((numbers.back() + units) * block_unit, store.local(node).blocks->bytes());
      for (std::size_t i = 1; i < numbers.size(); ++i) ASSERT_GE(numbers[i], numbers[i - 1] + units);
    }
  }
}

// A block that left a slot is used again under the next generation, and only in a variant that frees blocks.
TEST(FreeBlocks, ComeBackWithTheNextGeneration) {
  const auto module = make_module();
  for (const bool is_published : {false, true}) {
    StoreCluster::Shape shape{.config = small_deploy(2, 1, 0, 4)};
    if (is_published) shape.options["race.variant"] = "published";
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, shape);
    WorkerState own(static_cast<RaceStore&>(cluster.store()).settings());
    own.give(1, 0);  // the word of a free slot without a block
    own.give(1, Entry{1, 2, 6, generations - 1, false}.pack());
    own.give(1, parked(Entry{1, 2, 4, 7, false}.pack()));
    EXPECT_EQ(own.left(1), is_published ? 0u : 2u);
    EXPECT_EQ(own.left(0), 0u);
    own.put_back(1, {8, 3});
    std::vector<std::pair<std::uint64_t, std::uint32_t>> taken;
    while (const std::optional<Block> block = own.free[1].take_oldest())
      taken.emplace_back(block->number, block->generation);
    const std::vector<std::pair<std::uint64_t, std::uint32_t>> all = {{6, 0}, {4, 8}, {8, 4}}, one = {{8, 0}};
    EXPECT_EQ(taken, is_published ? one : all);
  }
}

TEST(Layout, EveryByteOfABlockIsChecked) {
  const BlockLayout layout{8, 24, 24};
  alignas(8) std::array<std::byte, 64> memory{};
  fabric::Region region(0, 0, "blocks", memory.data(), memory.size(), {});
  std::vector<std::byte> scratch(layout.checked_bytes());
  const std::uint64_t number = 7;
  const std::array<std::byte, 24> value{std::byte{1}, std::byte{2}};
  const BlockHead head{4'095, 8, 24, 3, 0};
  layout.write({&region, 0}, head, key_of(number), {value.data(), 24, 24}, scratch);
  BlockHead seen;
  ASSERT_TRUE(layout.read({&region, 0}, scratch, &seen));
  EXPECT_EQ(seen.generation, 4'095);
  EXPECT_EQ(seen.writer, 3u);
  EXPECT_EQ(std::memcmp(BlockLayout::key_in(scratch, seen).data, &number, 8), 0);
  for (std::uint32_t i = 0; i < layout.checked_bytes(); ++i) {
    memory[i] ^= std::byte{1};
    EXPECT_FALSE(layout.read({&region, 0}, scratch, &seen)) << i;
    memory[i] ^= std::byte{1};
  }
}

// The two combined buckets of a key are different and in the key's subtable, and neither crosses the border
// of its group of three buckets.
TEST(Places, LieInTheKeysSubtable) {
  const Shape shape{.nodes = 3, .depth = 2, .max_depth = 4, .groups = 10};
  std::set<std::uint32_t> subtables, nodes;
  for (std::uint64_t number = 0; number < 2'000; ++number) {
    const Places places = shape.places(key_of(number));
    nodes.insert(places.node);
    subtables.insert(bits(places.suffix, 0, shape.depth));
    EXPECT_NE(places.bucket[0], places.bucket[1]);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_LT(places.bucket[i], shape.subtable_bytes());
      EXPECT_LT(places.bucket[i] % group_bytes, combined_bytes);
      EXPECT_EQ(places.bucket[i] % bucket_bytes, 0u);
    }
  }
  EXPECT_EQ(nodes.size(), 3u);
  EXPECT_EQ(subtables.size(), 4u);
}

// In SMART's artifact, subtable and first bucket are residues of one number: of a subtable's buckets only one
// in gcd(subtables, buckets) is the first of any key. In the hardened variant every bucket is the first of
// some key.
TEST(Places, PublishedHashesAreCorrelated) {
  Shape shape{.nodes = 1, .depth = 4, .groups = 40};
  for (const bool is_published : {false, true}) {
    shape.has_correlated_hashes = is_published;
    std::set<std::uint64_t> first;
    for (std::uint64_t number = 0; number < 20'000; ++number) {
      const Places places = shape.places(key_of(number));
      if (bits(places.suffix, 0, 4) == 3) first.insert(places.bucket[0]);
    }
    EXPECT_EQ(first.size(), is_published ? 80 / std::gcd(16, 80) : 80u);
  }
}

// The View of both combined buckets of the group (main, overflow, main bucket) at `bytes`.
View seen_in(const std::byte* bytes) {
  Places places;
  places.bucket = {0, bucket_bytes};
  places.suffix = 0b10;
  View view;
  for (std::size_t i = 0; i < 2; ++i) {
    for (const std::uint32_t half : {0, 1})
      view.add(places, i, half, 0, bytes + i * bucket_bytes + half * bucket_bytes);
  }
  return view;
}

struct Group {
  alignas(8) std::array<std::byte, group_bytes> bytes{};
  Group() {
    for (std::uint64_t at = 0; at < group_bytes; at += bucket_bytes) put(at, header_of(1, 0));
  }
  void put(std::uint64_t at, Word word) { std::memcpy(bytes.data() + at, &word, 8); }
};

TEST(Seen, AnOverflowBucketThatBothHaveIsSeenOnce) {
  Group group;
  group.put(8, Entry{1, 1, 5, 0, false}.pack());
  const View view = seen_in(group.bytes.data());
  EXPECT_EQ(view.seen().size(), 21u);
  EXPECT_EQ(view.depth, 1u);
  EXPECT_DOUBLE_EQ(view.share_taken(), 1.0 / 21);
  // a free slot in the second main bucket, which is empty, is chosen before one in the overflow bucket
  ASSERT_NE(view.free_slot(false), nullptr);
  EXPECT_EQ(view.free_slot(false)->offset, 2 * bucket_bytes + 8u);
  // a free slot in which a DELETE left a block is chosen before one without
  group.put(bucket_bytes + 16, parked(Entry{1, 1, 9, 4, false}.pack()));
  EXPECT_EQ(seen_in(group.bytes.data()).free_slot(false)->offset, bucket_bytes + 16u);
  group.put(bucket_bytes + 16, 0);
  for (std::uint64_t i = 1; i <= slots_per_bucket; ++i)
    group.put(2 * bucket_bytes + 8 * i, Entry{1, 1, 9 + i, 0, false}.pack());
  EXPECT_EQ(seen_in(group.bytes.data()).free_slot(false)->offset, 16u);
}

// A frozen word (a split is moving its entry) is an entry while its bucket is being moved, and a free slot
// before and after. A key that moves with its bucket is not inserted into the old bucket.
TEST(Seen, TheHeaderSaysWhatAFrozenWordIs) {
  Group group;
  for (std::uint64_t at = bucket_bytes; at < group_bytes; at += bucket_bytes) {
    for (std::uint64_t i = 1; i <= slots_per_bucket; ++i)
      group.put(at + 8 * i, Entry{1, 1, 9 + at + i, 0, false}.pack());
  }
  for (std::uint64_t i = 1; i <= slots_per_bucket; ++i)
    group.put(8 * i, Entry{1, 1, 900 + i, 0, false}.pack() | frozen_bit);
  const View after = seen_in(group.bytes.data());
  ASSERT_NE(after.free_slot(false), nullptr);
  EXPECT_EQ(after.free_slot(false)->offset, 8u);
  group.put(0, header_of(1, 0) | moving_bit);
  EXPECT_DOUBLE_EQ(seen_in(group.bytes.data()).share_taken(), 1);
  group.put(8, 0);
  EXPECT_EQ(seen_in(group.bytes.data()).free_slot(false), nullptr);
  group.put(0, header_of(0, 0) | moving_bit);  // the key's hash has bit 0 clear, so that it stays
  EXPECT_EQ(seen_in(group.bytes.data()).free_slot(false)->offset, 8u);
}

struct Requests {
  std::uint32_t read, write, cas;
  friend bool operator==(const Requests&, const Requests&) = default;
};

coro::Task<void> one_of_each(support::Lane* lane, std::vector<Requests>* seen,
                             std::vector<kv::OpStatus>* ended) {
  const auto note = [&](const support::Lane::Outcome& of) {
    seen->push_back({of.stats.read, of.stats.write, of.stats.cas});
    ended->push_back(of.result.status);
  };
  const support::Lane::Outcome hit = co_await lane->get(1);
  note(hit);
  const support::Lane::Outcome update = co_await lane->put(1, 5);
  note(update);
  const support::Lane::Outcome removed = co_await lane->remove(1);
  note(removed);
  const support::Lane::Outcome miss = co_await lane->get(1);
  note(miss);
  const support::Lane::Outcome insert = co_await lane->put(1, 6);
  note(insert);
}

// A GET takes 2 READs of buckets and 1 of a block; an UPDATE in addition a WRITE and a CAS; a DELETE in
// addition a CAS. An INSERT takes a WRITE, 2 READs, a CAS, 2 READs, and in the hardened variant a second CAS,
// which commits.
TEST(OnSim, RequestsOfEachOperation) {
  const auto module = make_module();
  for (const char* variant : {"hardened", "published"}) {
    kv::DeployConfig config = small_deploy(2, 1, 0, 4);
    config.server_nodes = 1;
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module,
                         {.config = config, .options = {{"race.variant", variant}}});
    std::vector<Requests> seen;
    std::vector<kv::OpStatus> ended;
    cluster.start(0, [&](support::Lane* lane) { return one_of_each(lane, &seen, &ended); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    const std::uint32_t commits = variant == std::string("hardened") ? 2 : 1;
    EXPECT_EQ(seen, (std::vector<Requests>{{3, 0, 0}, {3, 1, 1}, {3, 0, 1}, {2, 0, 0}, {4, 1, commits}}))
        << variant;
    EXPECT_EQ(ended, (std::vector{kv::OpStatus::ok, kv::OpStatus::ok, kv::OpStatus::ok,
                                  kv::OpStatus::not_found, kv::OpStatus::ok}));
  }
}

coro::Task<void> update_once(support::Lane* lane, fabric::Worker* worker, Nanos* span) {
  const Nanos began = worker->now();
  const support::Lane::Outcome put = co_await lane->put(1, 5);
  *span = put.result.status == kv::OpStatus::ok ? worker->now() - began : 0;
}

// As in SMART's artifact, the published variant inlines the WRITE of a block of one unit, so that its NIC
// does not read the block over the bus; a larger block it does not inline, and the hardened variant none.
TEST(OnSim, APublishedBlockOfOneUnitIsInlined) {
  const auto module = make_module();
  std::map<std::pair<bool, std::uint32_t>, Nanos> spans;
  for (const bool is_published : {false, true}) {
    for (const std::uint32_t value_size : {8U, 72U}) {
      kv::DeployConfig config = small_deploy(2, 1, 0, 4, value_size, 8);
      config.server_nodes = 1;
      const std::map<std::string, std::string> options = {
          {"race.variant", is_published ? "published" : "hardened"}};
      StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, {.config = config, .options = options});
      Nanos& span = spans[{is_published, value_size}];
      cluster.start(0, [&](support::Lane* lane) { return update_once(lane, &cluster.worker(0), &span); });
      ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
      ASSERT_GT(span, 0);
    }
  }
  EXPECT_LT((spans[{true, 8}]), (spans[{false, 8}]) - 300);
  EXPECT_EQ((spans[{true, 72}]), (spans[{false, 72}]));
}

coro::Task<void> update_often(support::Lane* lane, std::uint64_t* wrong) {
  for (std::uint64_t i = 0; i < 9'000; ++i) {
    const support::Lane::Outcome put = co_await lane->put(i % 4, i);
    if (put.result.status != kv::OpStatus::ok) ++*wrong;
    if (i % 10 != 0) continue;
    const support::Lane::Outcome got = co_await lane->get(i % 4);
    if (got.result.status != kv::OpStatus::ok || got.value != i || got.is_torn) ++*wrong;
  }
}

// A client with two free blocks can make any number of updates, past the number of generations of a word. In
// the published variant, which frees no block, the two are used up.
TEST(OnSim, BlocksComeBack) {
  const auto module = make_module();
  for (const bool is_published : {false, true}) {
    kv::DeployConfig config = small_deploy(2, 1, 0, 4, 64);
    config.max_keys = 4;
    std::map<std::string, std::string> options = {{"race.spare-blocks", "1"}};
    if (is_published) options["race.variant"] = "published";
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, {.config = config, .options = options});
    std::uint64_t wrong = 0;
    cluster.start(0, [&](support::Lane* lane) { return update_often(lane, &wrong); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    if (is_published)
      EXPECT_GT(wrong, 8'900u);
    else
      EXPECT_EQ(wrong, 0u);
    if (!is_published) EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{});
  }
}

// Rounds of operations on key 1 that leave the table as it was: an INSERT that finds the key, if the variant
// has INSERTs, then a DELETE, a PUT of the absent key, and an UPDATE.
coro::Task<void> make_rounds(support::Lane* lane, kv::Client* client, const kv::DeployConfig* config,
                             bool has_inserts, std::uint64_t rounds, std::uint64_t* wrong) {
  std::vector<std::byte> key(config->key_size), value(config->value_size);
  support::PatternData::write_key(1, key.data(), config->key_size);
  support::PatternData::write_value(7, value.data(), config->value_size);
  fabric::OpStats stats;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    if (has_inserts) {
      const kv::OpResult inserted = co_await client->insert_if_absent(
          {key.data(), config->key_size}, {value.data(), config->value_size, config->kept_value_bytes},
          &stats);
      if (inserted.status != kv::OpStatus::exists) ++*wrong;
    }
    const support::Lane::Outcome removed = co_await lane->remove(1);
    const support::Lane::Outcome put = co_await lane->put(1, i);
    const support::Lane::Outcome update = co_await lane->put(1, i + 1);
    for (const support::Lane::Outcome& each : {removed, put, update}) {
      if (each.result.status != kv::OpStatus::ok) ++*wrong;
    }
  }
}

// Operations that leave the table as it was leave a client as many free blocks as it had, whether a PUT has
// used its block or not.
TEST(OnSim, NoBlockIsLostInManyRounds) {
  const auto module = make_module();
  for (const bool is_published : {false, true}) {
    std::map<std::string, std::string> options = {{"race.spare-blocks", "4"}};
    if (is_published) options.insert({{"race.variant", "published"}, {"race.reuse", "true"}});
    std::set<double> free;
    for (const std::uint64_t rounds : {2U, 300U}) {
      kv::DeployConfig config = small_deploy(2, 1, 0, 4, 64);
      config.max_keys = 4;
      StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, {.config = config, .options = options});
      std::uint64_t wrong = 0;
      cluster.start(0, [&](support::Lane* lane) {
        return make_rounds(lane, &cluster.client(0), &cluster.config(), !is_published, rounds, &wrong);
      });
      ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
      EXPECT_EQ(wrong, 0u);
      free.insert(cluster.counter("blocks_free"));
    }
    EXPECT_EQ(free.size(), 1u) << (is_published ? "published" : "hardened");
  }
}

coro::Task<void> nothing() { co_return; }

coro::Task<void> write_words(fabric::Worker* worker, fabric::RemoteRegion table, fabric::LocalSlice word,
                             std::vector<std::uint64_t> offsets, std::vector<fabric::WcStatus>* ended) {
  for (const std::uint64_t offset : offsets) {
    const fabric::Completion done = co_await worker->write(table, offset, word, 8);
    ended->push_back(done.status);
    (void)co_await worker->reconnect(table.node, worker->now() + 1'000'000);
  }
}

// No word that is swapped is ever written by a WRITE (R14), because the table's region has no right for that:
// neither a slot, nor a header, nor the directory.
TEST(OnSim, TheTableCanBeChangedByAtomicsAlone) {
  const auto module = make_module();
  for (const char* variant : {"hardened", "published"}) {
    kv::DeployConfig config = small_deploy(2, 1, 0, 4, 64);
    config.server_nodes = 1;
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module,
                         {.config = config, .options = {{"race.variant", variant}}});
    auto& store = static_cast<RaceStore&>(cluster.store());
    const Shape& shape = store.settings().shape;
    const std::vector<std::uint64_t> offsets = {0, 8, shape.directory_at(), shape.entry_at(0)};
    std::vector<Word> before, after;
    for (const std::uint64_t offset : offsets)
      before.push_back(fabric::load_word(store.local(0).table->at(offset)));
    std::vector<fabric::WcStatus> ended;
    NodeState& client = store.local(1);
    cluster.start(0, [&](support::Lane* lane) {
      return write_words(&lane->worker(), client.workers.front()->table.at(0).region, {client.buffers, 0},
                         offsets, &ended);
    });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(ended, std::vector(offsets.size(), fabric::WcStatus::remote_access)) << variant;
    for (const std::uint64_t offset : offsets)
      after.push_back(fabric::load_word(store.local(0).table->at(offset)));
    EXPECT_EQ(after, before) << variant;
  }
}

// CASes of unknown outcome, each with two blocks, of which one is the worker's: that one becomes free.
TEST(OnSim, ADoubtGivesTheWorkerItsBlockBack) {
  const auto module = make_module();
  kv::DeployConfig config = small_deploy(2, 1, 0, 4, 64);
  config.server_nodes = 1;
  StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module, {.config = config});
  auto& store = static_cast<RaceStore&>(cluster.store());
  const Shape& shape = store.settings().shape;
  fabric::Region& table = *store.local(0).table;
  WorkerState& own = *store.local(1).workers.front();
  std::vector<Slot> taken, free;
  for (std::uint64_t at = 0; at < shape.subtable_bytes() * shape.subtables(); at += 8) {
    if (at % bucket_bytes == 0) continue;
    (fabric::load_word(table.at(at)) == 0 ? free : taken).push_back({0, at});
  }
  const Slot slot = taken.at(0);
  const Word entry = fabric::load_word(table.at(slot.offset));
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(own.free[0].take_oldest().value_or(Block{}).number);
  const auto names = [&](std::size_t i, std::uint32_t generation, bool is_pending) {
    return Entry{1, store.settings().block.units(), blocks[i], generation, is_pending}.pack();
  };
  fabric::store_word_release(table.at(free.at(0).offset), names(2, 0, true));
  fabric::store_word_release(table.at(free.at(1).offset), names(4, 0, true));
  using enum Doubt::Step;
  own.doubts = {
      {update, slot, entry, names(0, 0, false)},  // did not happen: the slot has the old entry
      {update, slot, names(1, 0, false), entry},  // happened
      {take_back, free[0], names(2, 0, true), 0},
      {commit, slot, entry | Word{1} << 63, parked(names(3, 0, false))},  // happened
      {commit, free[1], names(4, 0, true), parked(names(5, 0, false))},   // did not happen
      {update, slot, names(6, 1, false), names(7, 3, false)},  // happened: the new block has been used again
      {update, slot, names(7, 1, false), names(6, 0, false)},  // did not happen: the old one has been
  };
  cluster.start(0, [] { return nothing(); });
  ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(cluster.counter("doubts_settled"), 7);
  EXPECT_EQ(cluster.counter("doubts_waiting"), 0);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> given;
  for (const FreeBlocks::Run& run : own.free[0].runs()) {
    if (run.count == 1) given.emplace_back(run.first.number, run.first.generation);
  }
  EXPECT_EQ(given, (std::vector<std::pair<std::uint64_t, std::uint32_t>>{{blocks[0], 1},
                                                                         {blocks[1], 1},
                                                                         {blocks[2], 1},
                                                                         {blocks[3], 1},
                                                                         {blocks[4], 1},
                                                                         {blocks[6], 2},
                                                                         {blocks[6], 1}}));
  EXPECT_EQ(fabric::load_word(table.at(slot.offset)), entry);
  EXPECT_EQ(fabric::load_word(table.at(free[0].offset)), 0u);
  EXPECT_EQ(fabric::load_word(table.at(free[1].offset)), parked(names(5, 0, false)));
}

class On : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, On, ::testing::Values("sim", "shm"));

TEST_P(On, ValuesAreNeitherTornNorForeign) {
  const auto module = make_module();
  for (const std::uint32_t server_nodes : {0U, 1U}) {
    kv::DeployConfig config = small_deploy(3, 2, 0, 12);
    config.server_nodes = server_nodes;
    StoreCluster cluster(make_fabric(GetParam(), {.nodes = 3}), *module,
                         {.config = config, .options = {{"race.spare-blocks", "16"}, {"race.depth", "1"}}});
    support::Tally tally;
    for (std::size_t w = 0; w < cluster.workers(); ++w)
      cluster.start(w, [&](support::Lane* lane) { return support::work(lane, 12, 1'000, &tally); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(tally.torn, 0u);
    EXPECT_EQ(tally.foreign, 0u);
    EXPECT_EQ(tally.ok + tally.not_found + tally.other, 1'000u * cluster.workers());
    EXPECT_LT(tally.other, 50u * cluster.workers());
    EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{});
  }
}

// Requests fail, executed or not. What the failed operations left is repaired, and no block is lost, except
// one by each DELETE whose outcome stays unknown.
TEST_P(On, FailedRequestsLeaveNothingBehind) {
  const auto module = make_module();
  StoreRun run;
  run.fabric = GetParam();
  run.deploy = {.nodes = 3, .client_workers = 2, .window = 2, .key_size = 16, .value_size = 64, .keys = 16};
  run.deploy.server_nodes = 1;
  run.operations = 4'000;
  run.rc_error = 0.01;
  run.options = {{"race.reconnect-timeout", "1s"}};
  const auto outcome = run_store(*module, run);
  ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
  EXPECT_EQ(total(outcome).corrupt, 0u);
  EXPECT_GT(outcome.protocol_counters.at("ambiguous_swaps"), 5);
  EXPECT_GT(total(outcome).completed(), 3'800u);
}

// An UPDATE frees a block for each one that it uses: the chunks (runs of blocks) that clients have asked for
// are as many after a short load of UPDATEs as after a long one.
TEST(Chunks, UpdatesUseNoMoreMemoryTheLongerTheyLast) {
  const auto module = make_module();
  const auto chunks_after = [&](std::uint64_t operations) {
    StoreRun run;
    run.deploy = {.nodes = 4, .client_workers = 2, .window = 2, .key_size = 16, .value_size = 64, .keys = 24};
    run.deploy.server_nodes = 2;
    run.deploy.server_workers = 1;
    run.get = 0;
    run.operations = operations;
    run.options = {{"race.allocation", "chunks"}, {"race.chunk-blocks", "4"}, {"race.attempts", "1000"}};
    const auto outcome = run_store(*module, run);
    EXPECT_EQ(outcome.end, fabric::RunEnd::finished);
    EXPECT_EQ(total(outcome).completed(), operations);
    return outcome.protocol_counters.at("chunks_given");
  };
  const double chunks = chunks_after(1'000);
  EXPECT_GE(chunks, 8) << "each of four clients asks each of two nodes";
  EXPECT_EQ(chunks_after(20'000), chunks);
}

// Clients that CAS the same few words have fewer failed CASes with SMART's conflict avoidance, and complete
// the same number of operations.
TEST_P(On, ConflictAvoidanceLosesFewerSwaps) {
  const auto module = make_module();
  std::map<kv::ConflictConfig::Kind, double> lost;
  for (const auto kind : {kv::ConflictConfig::Kind::none, kv::ConflictConfig::Kind::throttled}) {
    StoreRun run;
    run.fabric = GetParam();
    run.deploy = {.nodes = 3, .client_workers = 4, .window = 8, .key_size = 16, .value_size = 64, .keys = 2};
    run.deploy.server_nodes = 1;
    run.get = 0;
    run.operations = 8'000;
    run.options = {{"race.attempts", "1000000"}};
    run.conflicts = kv::ConflictConfig{.kind = kind, .epoch = 100'000};
    const auto outcome = run_store(*module, run);
    ASSERT_EQ(outcome.end, fabric::RunEnd::finished);
    EXPECT_EQ(total(outcome).corrupt, 0u);
    EXPECT_EQ(total(outcome).completed(), 8'000u);
    lost[kind] = outcome.protocol_counters.at("lost_swaps");
  }
  if (std::string(GetParam()) == "sim") {
    EXPECT_LT(4 * lost.at(kv::ConflictConfig::Kind::throttled), lost.at(kv::ConflictConfig::Kind::none));
  }
}

TEST(Module, RefusesInOneLine) {
  const auto module = make_module();
  const auto refused = [&](const kv::DeployConfig& config, std::map<std::string, std::string> set) {
    kv::Options options(module->options());
    for (const auto& [key, value] : set) EXPECT_TRUE(options.set(key, value).has_value());
    const auto store = module->deploy(config, options, {});
    return store.has_value() ? std::string() : store.error().message;
  };
  const kv::DeployConfig good = small_deploy(2, 1, 0, 10);
  EXPECT_EQ(refused(good, {}), "");
  kv::DeployConfig bad = good;
  bad.server_workers = 1;
  EXPECT_NE(refused(bad, {}).find("servers: race has no server workers"), std::string::npos);
  bad = good;
  bad.value_size = 17'000;
  EXPECT_NE(refused(bad, {}).find("value-size: 17000 bytes"), std::string::npos);
  bad = good;
  bad.memory_bytes = 1'000;
  EXPECT_NE(refused(bad, {}).find("bytes of each of 2 nodes, which have 1000"), std::string::npos);
  EXPECT_NE(refused(good, {{"race.mend-r2", "true"}}).find("expected race.variant published"),
            std::string::npos);
  EXPECT_EQ(refused(good, {{"race.backoff-start", "101us"}}),
            "race.backoff-cap: 100us is below race.backoff-start, 101us; expected at least as much");
  EXPECT_EQ(refused(good, {{"race.backoff-start", "100us"}}), "");
  EXPECT_NE(refused(good, {{"race.spare-limit", "1M"}}).find("race.spare-limit: bounds blocks"),
            std::string::npos);
  EXPECT_NE(refused(good, {{"race.spare-limit", "1M"}, {"race.variant", "published"}, {"race.reuse", "true"}})
                .find("without race.reuse"),
            std::string::npos);
  EXPECT_EQ(refused(good, {{"race.spare-limit", "1M"}, {"race.variant", "published"}}), "");
}

}  // namespace
}  // namespace loch::race
