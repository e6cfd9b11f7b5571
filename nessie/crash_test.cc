// Tests that kill a client between any two of its requests, and then fence the client off and repair what it
// left half-done (the repair `scrub`, H12 in docs/protocols/nessie.md). Afterwards the key has its old or its
// new value, and every client can read and write it.
#include <gtest/gtest.h>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

struct Variant {
  const char* commit;
  const char* fast_update;
  const char* single_cas_delete;
};

class Crash : public ::testing::TestWithParam<Variant> {
 protected:
  static TestCluster::Shape shape(std::uint32_t functions) {
    TestCluster::Shape shape;
    shape.nodes = 4;
    shape.options = {{"nessie.hash-functions", std::to_string(functions)},
                     {"nessie.commit", GetParam().commit},
                     {"nessie.fast-update", GetParam().fast_update},
                     {"nessie.single-cas-delete", GetParam().single_cas_delete},
                     {"nessie.leak-scan", "on"}};
    return shape;
  }
  // Expects that no linked entry is pending, and that every entry that no index word names is free or stamped
  // (marked for reuse).
  static void expect_clean(TestCluster& cluster) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> named;
    for (const Word word : cluster.occupied()) {
      const EntryId id = cluster.settings().format.entry(word);
      EXPECT_TRUE(cluster.meta(id).is_valid);
      EXPECT_FALSE(cluster.settings().format.is_pending(word));
      EXPECT_EQ(cluster.data_word(id, cluster.settings().entry.stamp_at()), 0u)
          << "a linked entry is stamped";
      named.emplace(id.node, id.index);
    }
    for (std::uint32_t node = 0; node < 4; ++node) {
      for (std::uint32_t index = 0; index < 40; ++index) {
        const EntryId id{node, index, 0};
        if (named.contains({node, index}) || cluster.meta(id).kind == EntryKind::free) continue;
        EXPECT_NE(cluster.data_word(id, cluster.settings().entry.stamp_at()), 0u)
            << "leaked: " << node << "/" << index;
      }
    }
  }
  // Expects that GET, PUT, DELETE and MIGRATE (move of a key) of the key all work after the dead client's
  // repair.
  static void expect_usable(TestCluster& cluster, std::uint64_t key) {
    EXPECT_EQ(cluster.put(0, key, 90).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(1, key).value, 90u);
    EXPECT_EQ(cluster.remove(2, key).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(1, key).result.status, OpStatus::not_found);
    EXPECT_EQ(cluster.put(0, key, 91).result.status, OpStatus::ok);
    for (std::uint32_t i = 0; i < cluster.settings().functions(); ++i) {
      const cuckoo::Place place = cluster.candidate(key, i);
      if (!cluster.settings().format.is_empty(cluster.word(place))) {
        EXPECT_EQ(cluster.migrate(1, place).moved, Attempt::ok);
        break;
      }
    }
    EXPECT_EQ(cluster.get(2, key).value, 91u);
  }
};

constexpr std::uint32_t victim = 3;

TEST_P(Crash, InTheMiddleOfAPut) {
  for (const bool exists : {false, true}) {
    for (std::uint32_t at = 0;; ++at) {
      TestCluster cluster(shape(3));
      const std::uint64_t key = cluster.key_at({1, 3});
      if (exists) ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
      cluster.begin_put(victim, key, 2);
      const bool was_running = cluster.step(victim, at) && !cluster.fabric().is_done(cluster.worker(victim));
      if (!was_running) break;
      cluster.kill(victim);
      const Outcome scrub = cluster.scrub(0, {victim});
      const Outcome seen = cluster.get(1, key);
      const bool is_old = exists ? seen.value == 1u : seen.result.status == OpStatus::not_found;
      EXPECT_TRUE(is_old || seen.value == 2u) << "after " << at << " requests";
      expect_clean(cluster);
      expect_usable(cluster, key);
      ASSERT_LT(at, 50u);
    }
  }
}

TEST_P(Crash, InTheMiddleOfADelete) {
  for (std::uint32_t at = 0;; ++at) {
    TestCluster cluster(shape(3));
    const std::uint64_t key = cluster.key_at({1, 3});
    ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
    cluster.begin_remove(victim, key);
    if (!cluster.step(victim, at) || cluster.fabric().is_done(cluster.worker(victim))) break;
    cluster.kill(victim);
    const Outcome scrub = cluster.scrub(0, {victim});
    const Outcome seen = cluster.get(1, key);
    EXPECT_TRUE(seen.value == 1u || seen.result.status == OpStatus::not_found)
        << "after " << at << " requests";
    expect_clean(cluster);
    expect_usable(cluster, key);
    ASSERT_LT(at, 50u);
  }
}

TEST_P(Crash, InTheMiddleOfAMigrate) {
  std::map<std::string, std::uint64_t> kinds;
  for (std::uint32_t at = 0;; ++at) {
    TestCluster cluster(shape(3));
    const std::uint64_t key = cluster.key_at({1, 3});
    ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
    cluster.begin_migrate(victim, cluster.candidate(key, 0));
    if (!cluster.step(victim, at) || cluster.fabric().is_done(cluster.worker(victim))) break;
    cluster.kill(victim);
    for (const auto& [kind, count] : cluster.scrub(0, {victim}).scrubbed) kinds[kind] += count;
    const Outcome seen = cluster.get(1, key);
    EXPECT_EQ(seen.value, 1u) << "after " << at << " requests";
    EXPECT_TRUE(seen.is_whole);
    expect_clean(cluster);
    expect_usable(cluster, key);
    ASSERT_LT(at, 50u);
  }
  EXPECT_GE(kinds["copies_dropped"], 1u);
  if (std::string(GetParam().commit) == "cas") EXPECT_GE(kinds["copies_committed"], 1u);
}

// A MIGRATE (move of a key) reads its source slot and entry, then a DELETE of the key completes, then the
// MIGRATE links its copy and its client dies. The repair of the dead client (scrub) must not commit the copy,
// because that would bring a deleted value back.
TEST_P(Crash, ACopyOfADeletedValueIsDropped) {
  TestCluster cluster(shape(3));
  const std::uint64_t key = cluster.key_at({1, 3});
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_migrate(victim, cluster.candidate(key, 0));
  ASSERT_TRUE(cluster.step(victim, 3));
  ASSERT_EQ(cluster.remove(1, key).result.status, OpStatus::ok);
  cluster.step_through_cas(victim, 1);
  cluster.kill(victim);
  Outcome scrub = cluster.scrub(0, {victim});
  EXPECT_EQ(scrub.scrubbed["copies_dropped"], 1u);
  EXPECT_EQ(cluster.get(1, key).result.status, OpStatus::not_found);
  expect_clean(cluster);
}

// A client dies after its MIGRATE (move of a key) has linked the copy and tagged the source slot, and before
// it commits the copy. Other clients must not use the tagged slot, because the repair of the dead client
// (scrub) learns from the tag that the copy may be committed.
TEST_P(Crash, ATaggedSlotIsKeptUntilScrub) {
  TestCluster cluster(shape(2));
  const std::uint64_t key = cluster.key_at({1, 3});
  const cuckoo::Place source = cluster.candidate(key, 0);
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_migrate(victim, source);
  // With Commit::flip a MIGRATE (move of a key) commits by a local store as soon as its second CAS has
  // completed. So that the client dies between the CAS and the commit, the test executes this CAS itself and
  // kills the client before the client sees the completion.
  cluster.step_through_cas(victim, 1);
  const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(victim));
  ASSERT_NE(next, nullptr);
  const Word tag = next->operand;
  fabric::Region* index = cluster.fabric().direct(1, index_region);
  ASSERT_EQ(fabric::load_word(index->at(source.slot * 8)), next->compare);
  fabric::store_word_release(index->at(source.slot * 8), tag);
  cluster.kill(victim);

  const std::uint64_t other = cluster.key_at(source, {cluster.candidate(key, 1)});
  ASSERT_EQ(cluster.put(1, other, 7).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.word(source), tag);
  EXPECT_GE(cluster.counter("reserved_slots"), 1);
  Outcome scrub = cluster.scrub(0, {victim});
  EXPECT_EQ(scrub.scrubbed["copies_committed"], 1u);
  EXPECT_EQ(cluster.get(1, key).value, 1u);
  EXPECT_EQ(cluster.get(2, other).value, 7u);
  expect_clean(cluster);
  expect_usable(cluster, key);
}

TEST(Scrub, ReportsWithoutRepairIfAsked) {
  TestCluster::Shape shape;
  shape.options = {{"nessie.scrub", "report"}};
  TestCluster cluster(shape);
  const std::uint64_t key = cluster.key_at({1, 3});
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_put(2, key, 2);
  cluster.step_through_cas(2, 1);
  cluster.kill(2);
  const Word held = cluster.word(cluster.candidate(key, 0));
  Outcome scrub = cluster.scrub(0, {2});
  EXPECT_EQ(scrub.scrubbed["held_puts"], 1u);
  EXPECT_EQ(cluster.word(cluster.candidate(key, 0)), held);
  // the GET finds the pending entry and returns its previous version
  EXPECT_EQ(cluster.get(1, key).value, 1u);
  EXPECT_EQ(cluster.put(1, key, 3).result.status, OpStatus::conflict);
}

INSTANTIATE_TEST_SUITE_P(Variants, Crash,
                         ::testing::Values(Variant{"flip", "off", "off"}, Variant{"cas", "off", "off"},
                                           Variant{"flip", "on", "on"}, Variant{"cas", "on", "on"}),
                         [](const auto& info) {
                           return std::string(info.param.commit) +
                                  (std::string(info.param.fast_update) == "on" ? "_direct" : "_pending");
                         });

}  // namespace
}  // namespace loch::nessie::testing
