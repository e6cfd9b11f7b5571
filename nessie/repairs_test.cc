// Tests repairs of dead clients while clients continue (case A6 of docs/protocols/nessie.md), and that many
// repairs are under way together.
#include "nessie/repairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

TEST(OnlineScrub, DoesNotShareLandingPlacesWithTheBackground) {
  TestCluster cluster(shape_with({}));
  const Settings& settings = cluster.settings();
  std::set<std::uint32_t> lanes;
  for (std::uint32_t w = 0; w < settings.config.client_workers; ++w) {
    for (std::uint32_t slot = 0; slot < settings.config.window; ++slot)
      lanes.insert(w * settings.config.window + slot);
    lanes.insert(settings.background_lane(w));
    for (std::uint32_t i = 0; i < Settings::repairs_at_once; ++i) lanes.insert(settings.repair_lane(w, i));
  }
  EXPECT_EQ(lanes.size(), settings.lanes_with_repairs());
  EXPECT_EQ(*lanes.rbegin() + 1, settings.lanes_with_repairs());
  // Each lane's buffer for READs of entries holds a header, and its words are its own.
  std::map<fabric::Region*, std::vector<std::uint64_t>> landings;
  std::vector<std::uint64_t> words;
  for (std::uint32_t number = 0; number < settings.lanes_with_repairs(); ++number) {
    const Lane lane(cluster.store(), cluster.worker(0), number);
    landings[lane.landing].push_back(lane.landing_base);
    words.push_back(lane.word_at(0));
  }
  const auto expect_apart = [](std::vector<std::uint64_t> places, std::uint64_t bytes, std::uint64_t end) {
    std::ranges::sort(places);
    for (std::size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i], places[i - 1] + bytes);
    EXPECT_LE(places.back() + bytes, end);
  };
  for (const auto& [region, places] : landings)
    expect_apart(places, settings.entry.header_bytes(), region->bytes());
  expect_apart(words, 8 * lane_words, cluster.fabric().direct(0, words_region)->bytes());
  const auto in_scan = landings.find(cluster.fabric().direct(0, scan_region));
  ASSERT_NE(in_scan, landings.end());
  EXPECT_GE(std::ranges::min(in_scan->second), settings.config.client_workers * settings.scan_bytes());
}

// A scrub (repair after clients' deaths) waits only a few times for a node that stops answering, not once for
// each entry: the repairs that are under way wait together.
TEST(OnlineScrub, WaitsForASilentNodeAFewTimes) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "on"}}));
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(cluster.put(2, 700 + i, i).result.status, OpStatus::ok);
  cluster.kill(2);
  cluster.begin_scrub(0, {{2, 0}});
  // Steps the worker until it has read the index, so that its next READ is of an entry (on node 3).
  while (cluster.fabric().next(cluster.worker(0))->remote.node != 3) ASSERT_TRUE(cluster.step(0));
  while (cluster.fabric().next(cluster.worker(0))->remote.node == 3) ASSERT_TRUE(cluster.step(0));
  cluster.fabric().cut_off(2, true);
  const double before = cluster.counter("reconnects");
  EXPECT_FALSE(cluster.finish(0).is_complete);
  EXPECT_LE(cluster.counter("reconnects") - before, 2 * Settings::repairs_at_once);
}

// Every READ fails although every reconnection succeeds: the scrub (repair after clients' deaths) makes two
// attempts for each node's share of the index and reports that it is incomplete.
TEST(OnlineScrub, GivesUpWhereEveryReadFails) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "off"}}));
  cluster.begin_scrub(1, {{3, 0}});
  std::uint32_t failed = 0;
  while (cluster.fabric().next(cluster.worker(1)) != nullptr) {
    ASSERT_LT(++failed, 20u);
    cluster.fabric().fail_next(cluster.worker(1), false);
  }
  EXPECT_FALSE(cluster.finish(1).is_complete);
  EXPECT_EQ(failed, 2u * 4);
}

// A PUT is under way: the index word names its pending entry, and that entry names the key's previous
// version. The scan for leaked entries must suspect neither.
TEST(OnlineScrub, TheVersionUnderALivingPutIsNoLeak) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "on"}}));
  const std::uint64_t key = cluster.key_at({1, 3});
  ASSERT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);
  cluster.begin_put(0, key, 2);
  cluster.step_through_cas(0, 1);
  const Outcome scrub = cluster.scrub_clients(1, {{3, 0}});
  EXPECT_TRUE(scrub.is_complete);
  EXPECT_EQ(scrub.scrubbed.at("leaks_suspected"), 0u);
  EXPECT_EQ(cluster.finish(0).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(3, key).value, 2u);
}

TEST(OnlineScrub, LeavesTheLivingNeighbourAlone) {
  for (const char* mutant : {"", "scrub-takes-nodes"}) {
    TestCluster::Shape shape = shape_with({}, 4, mutant);
    shape.clients = 2;  // node n has the workers 2n and 2n+1
    TestCluster cluster(shape);
    const std::uint64_t of_dead = cluster.key_at({1, 3}), of_living = cluster.key_at({1, 5});
    ASSERT_EQ(cluster.put(0, of_dead, 1).result.status, OpStatus::ok);
    ASSERT_EQ(cluster.put(0, of_living, 1).result.status, OpStatus::ok);
    cluster.begin_put(4, of_dead, 2);
    cluster.begin_put(5, of_living, 2);
    cluster.step_through_cas(4, 1);
    cluster.step_through_cas(5, 1);
    cluster.kill(4);
    const Outcome scrub = cluster.scrub_clients(0, {{2, 0}});
    EXPECT_EQ(cluster.finish(5).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(1, of_dead).value, 1u);
    if (*mutant != 0) {
      // In this known-bad variant, the repair of the dead worker also rolls back the PUT of the living worker
      // on the dead worker's node, although that PUT returned ok.
      EXPECT_EQ(scrub.scrubbed.at("puts_taken_back"), 2u);
      EXPECT_EQ(cluster.get(1, of_living).value, 1u);
      continue;
    }
    EXPECT_EQ(scrub.scrubbed.at("puts_taken_back"), 1u);
    EXPECT_EQ(cluster.get(1, of_living).value, 2u);
  }
}

// ---- repairs of many words and entries are under way together (repairs.h)

// Executes a worker's repair to its end. Returns the most requests of the verb that were posted at once.
std::size_t most_at_once(TestCluster& cluster, std::uint32_t w, fabric::Verb verb) {
  fabric::Worker& worker = cluster.worker(w);
  std::size_t most = 0;
  while (cluster.fabric().next(worker) != nullptr) {
    std::size_t now = 0;
    for (std::size_t i = 0; i < cluster.fabric().posted(worker); ++i)
      now += cluster.fabric().request(worker, i).verb == verb ? 1 : 0;
    most = std::max(most, now);
    EXPECT_TRUE(cluster.step(w));
  }
  return most;
}

// Forty keys with entries on node 2, which is lost with its memory and stays away.
std::vector<std::uint64_t> lose_forty_entries(TestCluster& cluster) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 700; key < 740; ++key) {
    EXPECT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);
    keys.push_back(key);
  }
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  return keys;
}

TEST(ManyRepairs, EmptyWordsOfLostMemoryTogether) {
  TestCluster cluster(shape_with({}));
  lose_forty_entries(cluster);
  cluster.begin_declare(1, {2});
  EXPECT_EQ(most_at_once(cluster, 1, fabric::Verb::cas), Settings::repairs_at_once);
  const Outcome declared = cluster.finish(1);
  EXPECT_TRUE(declared.is_complete);
  EXPECT_GE(declared.scrubbed.at("words_emptied"), 2 * Settings::repairs_at_once);
  EXPECT_TRUE(cluster.store().audit({2}).empty()) << cluster.store().audit({2}).front();
}

TEST(ManyRepairs, LookAtEntriesOfTheDeadTogether) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "off"}}));
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(cluster.put(2, 700 + i, i).result.status, OpStatus::ok);
  cluster.kill(2);
  cluster.begin_scrub(0, {{2, 0}});
  EXPECT_EQ(most_at_once(cluster, 0, fabric::Verb::read), Settings::repairs_at_once);
  const Outcome scrubbed = cluster.finish(0);
  EXPECT_TRUE(scrubbed.is_complete);
  EXPECT_EQ(scrubbed.scrubbed.at("entries_examined"), 40u);
}

// The repairs under way have read words of lost memory, and their CASes are posted. A client that meets one
// of these words empties its slot itself and stores a value there, which the late CAS must not touch.
TEST(ManyRepairs, AWordThatAClientChangesMeanwhileStays) {
  TestCluster cluster(shape_with({}));
  const std::vector<std::uint64_t> keys = lose_forty_entries(cluster);
  cluster.begin_declare(1, {2});
  while (cluster.fabric().next(cluster.worker(1))->verb != fabric::Verb::cas) ASSERT_TRUE(cluster.step(1));
  const std::size_t posted = cluster.fabric().posted(cluster.worker(1));
  ASSERT_EQ(posted, Settings::repairs_at_once);
  std::vector<std::uint64_t> changed;
  for (std::size_t i = 0; i < posted; ++i) {
    const fabric::WorkRequest request = cluster.fabric().request(cluster.worker(1), i);
    for (const std::uint64_t key : keys) {
      const cuckoo::Place place = cluster.candidate(key, 0);
      if (place.node != request.remote.node || place.slot * 8 != request.remote_offset) continue;
      ASSERT_EQ(cluster.put(0, key, 5).result.status, OpStatus::ok);
      changed.push_back(key);
    }
  }
  ASSERT_GE(changed.size(), 2u);
  EXPECT_TRUE(cluster.finish(1).is_complete);
  for (const std::uint64_t key : changed) EXPECT_EQ(cluster.get(3, key).value, 5u) << key;
  cluster.flush(0);
  EXPECT_TRUE(cluster.store().audit({2}).empty()) << cluster.store().audit({2}).front();
}

}  // namespace
}  // namespace loch::nessie::testing
