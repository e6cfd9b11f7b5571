// Tests every path of the operations: results, and costs in READs, CASes and payload bytes (the table of
// costs in docs/protocols.md).
#include <gtest/gtest.h>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

// Expected READs and CASes of index words by worker 0 (on node 0), for keys whose slots are on other
// nodes.
struct Costs {
  std::uint32_t index_reads, index_swaps;
};
void expect_costs(const Outcome& outcome, const Costs& costs) {
  EXPECT_EQ(outcome.stats.index_read, costs.index_reads);
  EXPECT_EQ(outcome.stats.index_cas, costs.index_swaps);
}

constexpr std::uint32_t value_size = 16'384;
constexpr std::uint64_t entry_bytes = 160 + value_size;

class Operations : public ::testing::TestWithParam<const char*> {
 protected:
  static TestCluster::Shape shape(std::map<std::string, std::string> more = {}) {
    TestCluster::Shape shape;
    shape.value_size = value_size;
    shape.options = std::move(more);
    shape.options["nessie.completion"] = GetParam();
    shape.options["nessie.stamping"] = "eager";
    return shape;
  }
  // An index slot on node 1; worker 0, whose operations are counted, is on node 0.
  static cuckoo::Place remote_place(TestCluster& cluster, std::uint32_t slot = 3) {
    static_cast<void>(cluster);
    return {1, slot};
  }
  // A key with all candidate slots on nodes 1 and 2, the first one in slot `slot` of node 1.
  static std::uint64_t remote_key(TestCluster& cluster, std::uint32_t slot = 3,
                                  std::vector<cuckoo::Place> avoid = {}) {
    for (;;) {
      const std::uint64_t key = cluster.key_at(remote_place(cluster, slot), avoid);
      if (cluster.candidate(key, 1).node != 0 && cluster.candidate(key, 2).node != 0) return key;
    }
  }
};

TEST_P(Operations, MissReadsAllAndConfirms) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  const Outcome miss = cluster.get(0, key);
  EXPECT_EQ(miss.result.status, OpStatus::not_found);
  expect_costs(miss, {5, 0});
  EXPECT_EQ(miss.stats.payload_bytes, 40u);
}

TEST_P(Operations, InsertIsFiveReadsAndOneSwap) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  const Outcome put = cluster.put(0, key, 11);
  EXPECT_EQ(put.result.status, OpStatus::ok);
  expect_costs(put, {5, 1});
  EXPECT_EQ(put.stats.payload_bytes, 48u);
  EXPECT_EQ(put.stats.read, 5u);
  EXPECT_EQ(put.stats.write, 0u);
}

TEST_P(Operations, UpdateReadsTheHeaderOnlyIfRemote) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);  // places the entry on node 2
  const Outcome remote = cluster.put(0, key, 12);
  expect_costs(remote, {5, 1});
  EXPECT_EQ(remote.stats.read, 6u);
  // payload of the index words, of the entry's header, and of the mark that the replaced entry left the index
  EXPECT_EQ(remote.stats.payload_bytes, 48u + 152 + 8);
  const Outcome local = cluster.put(0, key, 13);  // the replaced entry is local
  expect_costs(local, {5, 1});
  EXPECT_EQ(local.stats.read, 5u);
  EXPECT_EQ(local.stats.payload_bytes, 48u);
  EXPECT_EQ(cluster.get(1, key).value, 13u);
}

TEST_P(Operations, HitCostsByRank) {
  TestCluster cluster(shape({{"nessie.cache", "off"}}));
  const std::uint64_t key = remote_key(cluster);
  std::vector<cuckoo::Place> places;
  for (std::uint32_t i = 0; i < 3; ++i) places.push_back(cluster.candidate(key, i));
  const std::uint64_t at_0 = cluster.key_at(places[0], {places[1], places[2]});
  const std::uint64_t at_1 = cluster.key_at(places[1], {places[0], places[2]});
  std::vector<std::uint64_t> in_the_way;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    if (rank == 1) in_the_way.push_back(at_0);
    if (rank == 2) in_the_way.push_back(at_1);
    for (const std::uint64_t other : in_the_way)
      ASSERT_EQ(cluster.put(1, other, 5).result.status, OpStatus::ok);
    ASSERT_EQ(cluster.put(2, key, 20 + rank).result.status, OpStatus::ok);
    const Outcome hit = cluster.get(0, key);
    EXPECT_EQ(hit.value, 20 + rank);
    EXPECT_TRUE(hit.is_whole);
    expect_costs(hit, {rank + 1, 0});
    // If a key in an earlier slot has the same filter bits (probability 1 in 128), the GET READs one entry
    // more.
    const auto false_hits = hit.stats.read - hit.stats.index_read - 1;
    EXPECT_EQ(hit.stats.payload_bytes, 8 * (rank + 1) + entry_bytes * (1 + false_hits));
    EXPECT_EQ(cluster.remove(2, key).result.status, OpStatus::ok);
  }
}

TEST_P(Operations, CachedHitReadsTheWordAlone) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  EXPECT_EQ(cluster.get(0, key).stats.cache_hits, 0u);
  const Outcome hit = cluster.get(0, key);
  EXPECT_EQ(hit.value, 11u);
  EXPECT_TRUE(hit.is_whole);
  EXPECT_EQ(hit.stats.cache_hits, 1u);
  EXPECT_EQ(hit.stats.payload_bytes, 8u);
  cluster.fabric().advance(2'000'000'000);
  const Outcome expired = cluster.get(0, key);
  EXPECT_EQ(expired.stats.cache_hits, 0u);
  EXPECT_EQ(expired.value, 11u);
}

TEST_P(Operations, LocalHitMovesNoValue) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  cluster.put(0, key, 11);
  const Outcome hit = cluster.get(0, key);
  EXPECT_EQ(hit.value, 11u);
  EXPECT_TRUE(hit.is_whole);
  EXPECT_EQ(hit.stats.payload_bytes, 8u);
  EXPECT_EQ(hit.stats.local_accesses, 1u);
}

TEST_P(Operations, MultipleReadsAddTheHeader) {
  TestCluster cluster(shape({{"nessie.multi-read", "on"}}));
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  const Outcome hit = cluster.get(0, key);
  EXPECT_EQ(hit.stats.payload_bytes, 8 + 152 + entry_bytes);
  EXPECT_TRUE(hit.is_whole);
}

TEST_P(Operations, GetOfAKeyUnderPutReturnsThePreviousVersion) {
  TestCluster cluster(shape({{"nessie.multi-read", "on"}}));
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  cluster.begin_put(1, key, 12);
  cluster.step_through_cas(1, 1);  // the PUT's entry is linked, not committed
  const Outcome old = cluster.get(0, key);
  EXPECT_EQ(old.value, 11u);
  EXPECT_EQ(old.stats.payload_bytes, 8 + 304 + entry_bytes);
  EXPECT_EQ(cluster.finish(1).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(0, key).value, 12u);
}

TEST_P(Operations, DeleteIsFiveReadsAndTwoSwaps) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  const Outcome removed = cluster.remove(0, key);
  EXPECT_EQ(removed.result.status, OpStatus::ok);
  expect_costs(removed, {5, 2});
  EXPECT_EQ(removed.stats.payload_bytes, 56u + 152 + 8);
  EXPECT_EQ(cluster.get(0, key).result.status, OpStatus::not_found);
  const Outcome absent = cluster.remove(0, key);
  EXPECT_EQ(absent.result.status, OpStatus::not_found);
  expect_costs(absent, {5, 0});
}

TEST_P(Operations, SingleSwapDelete) {
  TestCluster cluster(shape({{"nessie.single-cas-delete", "on"}}));
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  const Outcome removed = cluster.remove(0, key);
  EXPECT_EQ(removed.result.status, OpStatus::ok);
  expect_costs(removed, {1, 1});
  EXPECT_EQ(cluster.get(0, key).result.status, OpStatus::not_found);
  EXPECT_EQ(cluster.remove(0, key).result.status, OpStatus::not_found);
}

TEST_P(Operations, FastUpdateIsOneReadAndOneSwap) {
  TestCluster cluster(shape({{"nessie.fast-update", "on"}}));
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  const Outcome update = cluster.put(0, key, 12);
  expect_costs(update, {1, 1});
  EXPECT_EQ(cluster.get(1, key).value, 12u);
}

TEST_P(Operations, CommitBySwapAddsOne) {
  TestCluster cluster(shape({{"nessie.commit", "cas"}}));
  const std::uint64_t key = remote_key(cluster);
  expect_costs(cluster.put(2, key, 11), {5, 2});
  expect_costs(cluster.put(0, key, 12), {5, 2});
  EXPECT_EQ(cluster.get(1, key).value, 12u);
}

TEST_P(Operations, MigrateIsOneEntryOneWordAndTwoSwaps) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  cluster.put(2, key, 11);
  const Outcome moved = cluster.migrate(0, cluster.candidate(key, 0));
  EXPECT_EQ(moved.moved, Attempt::ok);
  // A MIGRATE (move of a key) that is part of a PUT READs one index word fewer, because the PUT has read the
  // source word.
  expect_costs(moved, {2, 2});
  EXPECT_EQ(moved.stats.payload_bytes, 8 + 24 + entry_bytes + 8);
  EXPECT_TRUE(cluster.settings().format.is_empty(cluster.word(cluster.candidate(key, 0))));
  const Outcome found = cluster.get(1, key);
  EXPECT_EQ(found.value, 11u);
  EXPECT_TRUE(found.is_whole);
  EXPECT_EQ(cluster.occupied().size(), 1u);
}

TEST_P(Operations, PutMigratesWhenAllCandidatesAreFull) {
  TestCluster cluster(shape());
  const std::uint64_t key = remote_key(cluster);
  std::vector<cuckoo::Place> places;
  for (std::uint32_t i = 0; i < 3; ++i) places.push_back(cluster.candidate(key, i));
  std::vector<std::uint64_t> others;
  for (std::uint32_t i = 0; i < 3; ++i) others.push_back(cluster.key_at(places[i], places));
  for (const std::uint64_t other : others)
    ASSERT_EQ(cluster.put(1, other, other).result.status, OpStatus::ok);
  const Outcome put = cluster.put(0, key, 11);
  EXPECT_EQ(put.result.status, OpStatus::ok);
  EXPECT_EQ(cluster.counter("migrations"), 1);
  expect_costs(put, {3 + 1 + 3 + 2, 3});
  EXPECT_EQ(cluster.get(2, key).value, 11u);
  for (const std::uint64_t other : others) EXPECT_EQ(cluster.get(2, other).value, other);
  EXPECT_EQ(cluster.occupied().size(), 4u);
}

TEST_P(Operations, TableFullIsReported) {
  TestCluster::Shape tight = shape();
  tight.max_keys = 6;
  tight.options["nessie.load-factor"] = "0.95";
  TestCluster cluster(tight);
  std::uint32_t in = 0, full = 0;
  std::vector<std::uint64_t> stored;
  for (std::uint64_t key = 0; key < 40; ++key) {
    const Outcome put = cluster.put(0, key, key);
    if (put.result.status == OpStatus::ok) {
      ++in;
      stored.push_back(key);
    } else {
      EXPECT_TRUE(put.result.status == OpStatus::table_full || put.result.status == OpStatus::conflict);
      EXPECT_EQ(put.result.effect, kv::Effect::none);
      ++full;
    }
  }
  EXPECT_GE(in, 6u);
  EXPECT_LE(in, 9u);
  EXPECT_GT(full, 0u);
  for (const std::uint64_t key : stored) EXPECT_EQ(cluster.get(1, key).value, key);
}

TEST_P(Operations, PreloadIsWhatInsertsGive) {
  TestCluster::Shape loaded = shape();
  loaded.keys = 60;
  TestCluster cluster(loaded);
  for (std::uint64_t key = 0; key < 60; ++key) {
    const Outcome hit = cluster.get(static_cast<std::uint32_t>(key % 3), key);
    EXPECT_EQ(hit.value, 1000 + key);
    EXPECT_TRUE(hit.is_whole);
  }
  EXPECT_EQ(cluster.put(0, 7, 5).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(1, 7).value, 5u);
  EXPECT_EQ(cluster.remove(2, 8).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(1, 8).result.status, OpStatus::not_found);
}

TEST_P(Operations, ElidedValuesKeepTheirHead) {
  TestCluster::Shape elided = shape();
  elided.keys = 30;
  elided.kept = 32;
  TestCluster cluster(elided);
  const Outcome remote = cluster.get(0, 1);
  EXPECT_EQ(remote.value, 1001u);
  EXPECT_EQ(remote.result.value.kept, 32u);
  EXPECT_EQ(remote.result.value.size, value_size);
  EXPECT_TRUE(remote.is_whole);
  // The simulated memory keeps only the first and last bytes of values, but payload bytes count values in
  // full.
  EXPECT_GE(remote.stats.payload_bytes, entry_bytes);
  EXPECT_EQ(cluster.put(0, 1, 77).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(0, 1).value, 77u);
  EXPECT_EQ(cluster.get(2, 1).value, 77u);
}

TEST_P(Operations, PublishedVariantsDoTheirWork) {
  for (const char* layout : {"2017", "2015"}) {
    TestCluster::Shape published = shape({{"nessie.variant", "published"}, {"nessie.layout", layout}});
    published.keys = 40;
    TestCluster cluster(published);
    for (std::uint64_t key = 0; key < 40; ++key) EXPECT_EQ(cluster.get(0, key).value, 1000 + key);
    const std::uint64_t key = remote_key(cluster);
    const Outcome insert = cluster.put(0, key, 5);
    EXPECT_EQ(insert.result.status, OpStatus::ok);
    EXPECT_GE(insert.stats.index_read, 5u);
    EXPECT_GE(insert.stats.index_cas, 1u);
    EXPECT_EQ(cluster.put(1, key, 6).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(0, key).value, 6u);
    EXPECT_EQ(cluster.remove(2, key).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(0, key).result.status, OpStatus::not_found);
    EXPECT_EQ(cluster.remove(2, key).result.status, OpStatus::not_found);
  }
}

INSTANTIATE_TEST_SUITE_P(Completion, Operations, ::testing::Values("watermark", "cqe"));

}  // namespace
}  // namespace loch::nessie::testing
