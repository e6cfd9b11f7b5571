// Scripted schedules for holes (known faults) of the published protocol: under each schedule an operation
// goes wrong by the rules of 2017 and not by the hardened ones. (`./loch explore` tries all schedules.)
#include <gtest/gtest.h>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

TestCluster::Shape shape(const char* variant, std::uint32_t functions, std::string mutant = {}) {
  TestCluster::Shape shape;
  shape.clients = 2;
  shape.options = {{"nessie.variant", variant}, {"nessie.hash-functions", std::to_string(functions)}};
  shape.mutant = std::move(mutant);
  return shape;
}

// Known fault H1 of docs/protocols/nessie.md: key K, with value 1, is in its last slot, key X is in K's
// middle slot, and K's first slot is free again. A PUT of K takes the free slot and, by the 2017 text,
// removes the committed entry of K at once. A PUT of X then makes the PUT of K abort, and no entry of K is
// left.
OpStatus get_after_aborted_put(const char* variant, std::string mutant = {}) {
  TestCluster cluster(shape(variant, 3, std::move(mutant)));
  const std::uint64_t k = cluster.key_at({1, 3});
  const std::vector<cuckoo::Place> places{cluster.candidate(k, 0), cluster.candidate(k, 1),
                                          cluster.candidate(k, 2)};
  const std::uint64_t in_first = cluster.key_at(places[0], {places[1], places[2]});
  const std::uint64_t x = cluster.key_at(places[1], {places[0], places[2]});
  EXPECT_EQ(cluster.put(0, in_first, 5).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.put(0, x, 21).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.remove(0, in_first).result.status, OpStatus::ok);
  EXPECT_FALSE(cluster.settings().format.is_empty(cluster.word(places[2])));

  cluster.begin_put(2, k, 11);
  // Runs the PUT until all its CASes are done: the first takes a slot, and by the rules of 2017 a second one
  // removes the duplicate.
  const bool removes = cluster.settings().rules.removes_duplicates;
  cluster.step_through_cas(2, removes ? 2 : 1);
  EXPECT_EQ(cluster.put(4, x, 22).result.status, OpStatus::ok);
  cluster.step_until_waiting(2);  // the PUT verifies, finds X changed, rolls back, and backs off
  EXPECT_FALSE(cluster.fabric().is_done(cluster.worker(2)));
  const Outcome seen = cluster.get(0, k);
  if (seen.result.status == OpStatus::ok) EXPECT_EQ(seen.value, 1u);
  EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(0, k).value, 11u);
  return seen.result.status;
}

TEST(Holes, H1PutDestroysBeforeItCommits) {
  EXPECT_EQ(get_after_aborted_put("published"), OpStatus::not_found);
  EXPECT_EQ(get_after_aborted_put("hardened"), OpStatus::ok);
  EXPECT_EQ(get_after_aborted_put("hardened", "destructive-put"), OpStatus::not_found);
}

// Known fault H2 of docs/protocols/nessie.md: K is in its second slot and is never absent. While a GET reads
// the slots, K moves to the first slot and back; by the 2017 text the first slot then holds the same EMPTY
// word as before.
OpStatus get_while_key_moves_twice(const char* variant, std::string mutant = {}) {
  TestCluster cluster(shape(variant, 2, std::move(mutant)));
  const std::uint64_t k = cluster.key_at({1, 3});
  const std::vector<cuckoo::Place> places{cluster.candidate(k, 0), cluster.candidate(k, 1)};
  EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.migrate(0, places[0]).moved, Attempt::ok);  // K is now at its second slot
  cluster.begin_get(2, k);
  EXPECT_TRUE(cluster.step(2));  // the GET reads the first slot: EMPTY
  cluster.begin_migrate(4, places[1]);
  cluster.step_through_cas(4, 2);  // K is in the first slot, not yet committed
  EXPECT_TRUE(cluster.step(2));    // the GET reads the second slot: EMPTY
  EXPECT_EQ(cluster.finish(4).moved, Attempt::ok);
  EXPECT_EQ(cluster.migrate(0, places[0]).moved, Attempt::ok);
  const Outcome seen = cluster.finish(2);
  if (seen.result.status == OpStatus::ok) EXPECT_EQ(seen.value, 1u);
  return seen.result.status;
}

TEST(Holes, H2EmptyWordsComeBack) {
  EXPECT_EQ(get_while_key_moves_twice("published"), OpStatus::not_found);
  EXPECT_EQ(get_while_key_moves_twice("hardened"), OpStatus::ok);
  EXPECT_EQ(get_while_key_moves_twice("hardened", "empty-not-unique"), OpStatus::not_found);
}

// Known fault H3 of docs/protocols/nessie.md: a PUT that has replaced the value 1 of key K must give up; what
// a later GET of K returns depends on the word that the PUT's rollback writes.
OpStatus get_after_rolled_back_update(std::string mutant) {
  TestCluster cluster(shape("hardened", 3, std::move(mutant)));
  const std::uint64_t k = cluster.key_at({1, 3});
  const std::vector<cuckoo::Place> places{cluster.candidate(k, 0), cluster.candidate(k, 1),
                                          cluster.candidate(k, 2)};
  const std::uint64_t x = cluster.key_at(places[1], {places[0], places[2]});
  EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
  cluster.begin_put(2, k, 11);
  cluster.step_through_cas(2, 1);
  EXPECT_EQ(cluster.put(4, x, 21).result.status, OpStatus::ok);
  cluster.step_until_waiting(2);
  const OpStatus status = cluster.get(0, k).result.status;
  EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok);
  return status;
}

TEST(Holes, H3RollbackMustRestore) {
  EXPECT_EQ(get_after_rolled_back_update(""), OpStatus::ok);
  EXPECT_EQ(get_after_rolled_back_update("rollback-to-empty"), OpStatus::not_found);
}

// Known fault H6 of docs/protocols/nessie.md: a MIGRATE (move of a key) reads its source, a DELETE of the key
// completes, and then the MIGRATE links its copy. A GET that followed the copy's previous version would
// return the deleted value.
OpStatus get_after_delete_under_migrate(std::string mutant) {
  TestCluster cluster(shape("hardened", 2, std::move(mutant)));
  const std::uint64_t k = cluster.key_at({1, 3});
  EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
  cluster.begin_migrate(2, cluster.candidate(k, 0));
  // the MIGRATE (move of a key) reads the source word, the source entry and the target word
  EXPECT_TRUE(cluster.step(2, 3));
  EXPECT_EQ(cluster.remove(4, k).result.status, OpStatus::ok);
  cluster.step_through_cas(2, 1);  // the MIGRATE's copy is now in its target slot
  cluster.begin_get(0, k);
  for (int i = 0; i < 20 && cluster.step(0); ++i) {
  }
  EXPECT_NE(cluster.finish(2).moved, Attempt::ok);
  return cluster.finish(0).result.status;
}

TEST(Holes, H6CopiesHaveNoPreviousVersion) {
  EXPECT_EQ(get_after_delete_under_migrate(""), OpStatus::not_found);
  EXPECT_EQ(get_after_delete_under_migrate("migrate-copies-prev"), OpStatus::ok);
}

// A PUT that removes the old entry before it links the new one leaves the key absent for a while.
TEST(Holes, RemoveBeforeCommitLosesTheKeyForAWhile) {
  for (const bool is_mutant : {false, true}) {
    TestCluster cluster(shape("hardened", 3, is_mutant ? "remove-before-commit" : ""));
    const std::uint64_t k = cluster.key_at({1, 3});
    EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
    cluster.begin_put(2, k, 2);
    cluster.step_through_cas(2, 1);
    EXPECT_EQ(cluster.get(0, k).result.status, is_mutant ? OpStatus::not_found : OpStatus::ok);
    EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(0, k).value, 2u);
  }
}

// Known fault H20 of docs/protocols/nessie.md: the CAS that links an entry must not overtake the stores to
// the entry.
TEST(Holes, LinkBeforeWriteShowsAnEmptyEntry) {
  for (const bool is_mutant : {false, true}) {
    TestCluster cluster(shape("hardened", 3, is_mutant ? "link-before-write" : ""));
    const std::uint64_t k = cluster.key_at({1, 3});
    EXPECT_EQ(cluster.put(0, k, 1).result.status, OpStatus::ok);
    cluster.begin_put(2, k, 2);
    while (cluster.fabric().next(cluster.worker(2))->verb != fabric::Verb::cas) EXPECT_TRUE(cluster.step(2));
    const EntryId linked = cluster.settings().format.entry(cluster.fabric().next(cluster.worker(2))->operand);
    EXPECT_EQ(cluster.meta(linked).generation == linked.generation, !is_mutant);
    EXPECT_EQ(cluster.get(0, k).value, 1u);
    EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.get(0, k).value, 2u);
  }
}

// Known faults H7 (two entries of one key) and H13 (writers that abort each other) of
// docs/protocols/nessie.md: two PUTs insert the same absent key into different slots; at most one may commit.
TEST(Holes, TwoInsertersOfOneKey) {
  for (std::uint32_t lead = 0; lead < 12; ++lead) {
    TestCluster cluster(shape("hardened", 3));
    const std::uint64_t k = cluster.key_at({1, 3});
    const std::uint64_t first =
        cluster.key_at(cluster.candidate(k, 0), {cluster.candidate(k, 1), cluster.candidate(k, 2)});
    EXPECT_EQ(cluster.put(0, first, 5).result.status, OpStatus::ok);
    cluster.begin_put(2, k, 11);
    EXPECT_TRUE(cluster.step(2));  // worker 2's PUT reads the first slot: full
    EXPECT_EQ(cluster.remove(0, first).result.status, OpStatus::ok);
    cluster.begin_put(4, k, 12);
    cluster.step(4, lead);
    while (cluster.step(2) || cluster.step(4)) {
    }
    EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok);
    EXPECT_EQ(cluster.finish(4).result.status, OpStatus::ok);
    std::uint32_t entries = 0;
    for (std::uint32_t i = 0; i < 3; ++i) {
      entries += cluster.settings().format.is_empty(cluster.word(cluster.candidate(k, i))) ? 0 : 1;
    }
    EXPECT_EQ(entries, 1u) << "lead " << lead;
  }
}

}  // namespace
}  // namespace loch::nessie::testing
