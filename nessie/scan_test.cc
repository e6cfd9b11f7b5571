// Tests how repairs read whole tables: large READs of the index and of the headers of neighbouring entries,
// or many READs at once, find what READs of single words find.
#include "nessie/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

constexpr std::uint32_t small_value = 256;    // 146 entries for each READ of 64 KiB, and 8 READs at once
constexpr std::uint32_t large_value = 8'192;  // a READ for each entry, and 16 READs at once

// A cluster of three nodes, each with so many entries that a scan takes several rounds for a node.
TestCluster::Shape shape_of(std::uint32_t value_size, const std::string& mutant = {}) {
  TestCluster::Shape shape;
  shape.value_size = value_size;
  shape.options = {{"nessie.expiry", "1s"},
                   {"nessie.min-spare", value_size == small_value ? "3000" : "100"},
                   {"nessie.spare-memory", "0"}};
  shape.mutant = mutant;
  return shape;
}

fabric::Region* data_of(TestCluster& cluster, fabric::NodeId node) {
  return cluster.fabric().direct(node, data_region);
}

// Makes an entry that no index word names look used, as a client leaves it that dies after unlinking it.
void leak(TestCluster& cluster, const EntryId& id) {
  const EntryLayout& entry = cluster.settings().entry;
  const EntryMeta used{.is_valid = true, .kind = EntryKind::put, .generation = 7};
  fabric::store_word_release(
      data_of(cluster, static_cast<fabric::NodeId>(id.node))->at(id.index * entry.stride() + entry.meta_at()),
      used.pack());
}

bool is_read_of_entries(TestCluster& cluster, const fabric::WorkRequest& request) {
  const auto node = static_cast<fabric::NodeId>(request.peer);
  return request.verb == fabric::Verb::read && request.remote.id == data_of(cluster, node)->id();
}

coro::Task<void> read_all(TestCluster* cluster, fabric::NodeId node, std::vector<HeaderWords>* all) {
  Lane lane(cluster->store(), cluster->worker(0), cluster->settings().repair_lane(0));
  const std::uint32_t entries = cluster->settings().entries_per_node;
  const std::uint32_t most = headers_at_once(cluster->settings());
  for (std::uint32_t first = 0; first < entries; first += most) {
    std::vector<HeaderWords> headers;
    const bool is_read = co_await read_headers(&lane, node, first, std::min(most, entries - first), &headers);
    EXPECT_TRUE(is_read);
    all->insert(all->end(), headers.begin(), headers.end());
  }
}

// The words that a scan brings are those in memory, also where a simulation stores values in part.
TEST(ReadHeaders, BringsTheWordsOfEachEntry) {
  for (const std::uint32_t value_size : {small_value, large_value}) {
    for (const std::uint32_t kept : {~0U, 16U}) {
      SCOPED_TRACE(::testing::Message() << value_size << " bytes, " << kept << " kept");
      TestCluster::Shape shape = shape_of(value_size);
      shape.keys = 40;
      shape.kept = kept;
      TestCluster cluster(shape);
      ASSERT_EQ(cluster.settings().reads_ranges(), value_size == small_value);
      const EntryLayout& entry = cluster.settings().entry;
      const std::uint32_t entries = cluster.settings().entries_per_node;
      ASSERT_GT(entries, 2 * headers_at_once(cluster.settings()));
      for (std::uint32_t index = 0; index < entries; ++index) {  // other words in each entry
        for (const std::uint32_t within : {entry.prev_at(), entry.stamp_at(), entry.meta_at()})
          fabric::store_word_release(data_of(cluster, 1)->at(index * entry.stride() + within),
                                     index * 1000ULL + within);
      }
      std::vector<HeaderWords> all;
      cluster.fabric().start(cluster.worker(0), read_all(&cluster, 1, &all));
      cluster.fabric().finish(cluster.worker(0));
      ASSERT_EQ(all.size(), entries);
      for (std::uint32_t index = 0; index < entries; ++index) {
        const EntryId id{1, index, 0};
        ASSERT_EQ(all[index].prev, cluster.data_word(id, entry.prev_at())) << index;
        ASSERT_EQ(all[index].stamp, cluster.data_word(id, entry.stamp_at())) << index;
        ASSERT_EQ(all[index].meta, cluster.data_word(id, entry.meta_at())) << index;
      }
    }
  }
}

// A scan for leaked entries READs many entries at once, or has many READs outstanding at once, or both.
TEST(LeakScan, TakesFewRoundsForManyEntries) {
  for (const std::uint32_t value_size : {small_value, large_value}) {
    TestCluster cluster(shape_of(value_size));
    const std::uint32_t entries = cluster.settings().entries_per_node;
    ASSERT_GE(entries, 100u);
    cluster.begin_scrub(0, {{2, 0}});
    std::uint32_t reads = 0, rounds = 0;
    std::size_t most_posted = 0;
    while (const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(0))) {
      const std::size_t posted = cluster.fabric().posted(cluster.worker(0));
      most_posted = std::max(most_posted, posted);
      if (is_read_of_entries(cluster, *next)) {
        ++reads;
        if (posted == 1) ++rounds;  // the last of those that were posted together
      }
      ASSERT_TRUE(cluster.step(0));
    }
    EXPECT_TRUE(cluster.finish(0).is_complete);
    const std::uint32_t of_a_read = value_size == small_value ? 146 : 1;
    const std::uint32_t at_once = value_size == small_value ? 8 : 16;
    const auto times = [&](std::uint32_t part) { return (entries + part - 1) / part; };
    EXPECT_EQ(reads, 3 * times(of_a_read));
    EXPECT_EQ(rounds, 3 * times(of_a_read * at_once));
    EXPECT_EQ(most_posted, at_once);
  }
}

// Leaked entries are found wherever they lie in a round, also if a READ of each round fails once.
TEST(LeakScan, FindsEachLeakedEntry) {
  for (const std::uint32_t value_size : {small_value, large_value}) {
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(::testing::Message() << value_size << " bytes" << (fails ? ", READs fail" : ""));
      TestCluster cluster(shape_of(value_size));
      ASSERT_EQ(cluster.put(0, 900, 1).result.status, OpStatus::ok);
      const std::uint32_t at_once = headers_at_once(cluster.settings());
      const std::uint32_t last = cluster.settings().entries_per_node - 1;
      const std::vector<std::uint32_t> places = {1, at_once - 1, at_once, 2 * at_once - 1, last};
      for (const std::uint32_t index : places) leak(cluster, {1, index, 7});
      cluster.begin_scrub(0, {{2, 0}});
      std::map<std::uint64_t, std::uint32_t> failed;  // by the first READ's offset
      while (const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(0))) {
        const bool fails_now = fails && is_read_of_entries(cluster, *next) && next->peer == 1 &&
                               ++failed[next->remote_offset] == 1;
        if (fails_now)
          cluster.fabric().fail_next(cluster.worker(0), true);
        else
          ASSERT_TRUE(cluster.step(0));
        if (fails_now) cluster.fabric().drain(cluster.worker(0));
      }
      const Outcome found = cluster.finish(0);
      EXPECT_TRUE(found.is_complete);
      EXPECT_EQ(found.scrubbed.at("leaks_suspected"), places.size());
      for (const std::uint32_t index : places) {
        const Word stamp = cluster.data_word({1, index, 7}, cluster.settings().entry.stamp_at());
        EXPECT_TRUE(!Stamp::is_live(stamp) &&
                    Stamp::unpack(stamp, cluster.worker(1).node_clock()).is_suspicion);
      }
      EXPECT_EQ(failed.empty(), !fails);
    }
  }
}

// The owners of leaked entries are told of several at once.
TEST(LeakScan, SuspectsEntriesTogether) {
  TestCluster cluster(shape_of(small_value));
  for (std::uint32_t index = 0; index < 40; ++index) leak(cluster, {1, 10 + 3 * index, 7});
  cluster.begin_scrub(0, {{2, 0}});
  std::size_t most_posted = 0;
  while (const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(0))) {
    if (next->verb == fabric::Verb::write)
      most_posted = std::max(most_posted, cluster.fabric().posted(cluster.worker(0)));
    ASSERT_TRUE(cluster.step(0));
  }
  const Outcome found = cluster.finish(0);
  EXPECT_TRUE(found.is_complete);
  EXPECT_EQ(found.scrubbed.at("leaks_suspected"), 40u);
  EXPECT_EQ(most_posted, Settings::repairs_at_once);
  for (std::uint32_t index = 0; index < 40; ++index) {
    const Word stamp = cluster.data_word({1, 10 + 3 * index, 7}, cluster.settings().entry.stamp_at());
    EXPECT_TRUE(!Stamp::is_live(stamp) && Stamp::unpack(stamp, cluster.worker(1).node_clock()).is_suspicion);
  }
}

// One large READ of a scan is torn, and between its halves a client replaces a key's entry: the entry that
// the key has now is at most suspected, and keeps its value. With the mutant, a suspected entry counts as
// free.
std::uint64_t values_lost_in_torn_scans(const std::string& mutant) {
  std::uint64_t lost = 0;
  for (const bool is_upper_first : {false, true}) {
    for (std::uint32_t piece = 1; piece < 8; ++piece) {
      TestCluster::Shape shape = shape_of(small_value, mutant);
      shape.options["nessie.min-spare"] = "500";
      TestCluster cluster(shape);
      const std::uint64_t key = cluster.key_at({1, 3});
      EXPECT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
      cluster.begin_scrub(1, {{2, 0}});
      fabric::Worker& scanner = cluster.worker(1);
      // Node 0 has the entries of worker 0, which PUTs.
      while (!is_read_of_entries(cluster, *cluster.fabric().next(scanner))) EXPECT_TRUE(cluster.step(1));
      EXPECT_EQ(cluster.fabric().next(scanner)->peer, 0);
      const fabric::step::Tear tear = cluster.fabric().tear_at(scanner, 0, false, is_upper_first, piece);
      cluster.fabric().execute_half(scanner, 0, tear);
      for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(cluster.put(0, key, 2 + i).result.status, OpStatus::ok);
      EXPECT_TRUE(cluster.finish(1).is_complete);
      for (std::uint32_t w = 0; w < 3; ++w) cluster.flush(w);
      for (std::uint64_t i = 0; i < 600; ++i) {                     // uses every free entry of node 0 again
        if (i % 100 == 0) cluster.fabric().advance(3'000'000'000);  // longer than the expiry period
        EXPECT_EQ(cluster.put(0, 2'000 + i % 8, i).result.status, OpStatus::ok);
      }
      if (cluster.get(1, key).value != 5u) ++lost;
    }
  }
  return lost;
}
TEST(LeakScan, ATornReadLosesNoValue) {
  EXPECT_EQ(values_lost_in_torn_scans(""), 0u);
  EXPECT_GT(values_lost_in_torn_scans("leak-scan-stamps"), 0u);
}

coro::Task<void> scan_all(TestCluster* cluster, std::vector<Finding>* found) {
  Lane lane(cluster->store(), cluster->worker(0), cluster->settings().repair_lane(0));
  for (std::uint32_t node = 0; node < cluster->settings().config.nodes; ++node) {
    const bool is_read = co_await scan_index(&lane, node, found);
    EXPECT_TRUE(is_read);
  }
}

// An index whose shares take several READs is read whole, each word with its slot.
TEST(ScanIndex, FindsTheWordsOfALargeIndex) {
  TestCluster::Shape shape = shape_of(small_value);
  shape.max_keys = 60'000;
  TestCluster cluster(shape);
  ASSERT_GT(cluster.settings().slots_per_node, 2 * most_bytes_of_a_scan / 8);
  for (std::uint64_t i = 0; i < 80; ++i)
    ASSERT_EQ(cluster.put(static_cast<std::uint32_t>(i % 3), 500 + i, i).result.status, OpStatus::ok);
  std::vector<Finding> found;
  cluster.fabric().start(cluster.worker(0), scan_all(&cluster, &found));
  cluster.fabric().finish(cluster.worker(0));
  EXPECT_EQ(found.size(), 80u);
  std::set<std::uint64_t> parts;
  for (const Finding& each : found) {
    EXPECT_EQ(each.word, cluster.word(each.place));
    parts.insert(each.place.slot / (most_bytes_of_a_scan / 8));
  }
  EXPECT_GE(parts.size(), 3u);
}

// A share of the index that takes several WRITEs is filled whole after its node was lost.
TEST(DeclareLost, FillsALargeShare) {
  TestCluster::Shape shape = shape_of(small_value);
  shape.max_keys = 60'000;
  TestCluster cluster(shape);
  ASSERT_GT(cluster.settings().slots_per_node, 2 * most_bytes_of_a_scan / 8);
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  const Outcome declared = cluster.declare_lost(0, {2});
  EXPECT_TRUE(declared.is_complete);
  EXPECT_EQ(declared.scrubbed.at("shares_laid_out"), 1u);
  for (std::uint64_t i = 0; i < 80; ++i) {
    ASSERT_EQ(cluster.put(0, 500 + i, i).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(1, 500 + i).value, i);
  }
}

}  // namespace
}  // namespace loch::nessie::testing
