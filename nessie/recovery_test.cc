// Tests Nessie when requests fail, links are down for long, or nodes lose their memory. Most tests repeat an
// interleaving that once led to a wrong result; docs/protocols/nessie.md lists these cases as A1 to A4 and
// A6.
#include <gtest/gtest.h>

#include <cstring>

#include "common/coro/scope.h"
#include "nessie/members.h"
#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

// Executes requests of worker w until its next request is a CAS.
void step_to_cas(TestCluster& cluster, std::uint32_t w) {
  while (cluster.fabric().next(cluster.worker(w))->verb != fabric::Verb::cas) ASSERT_TRUE(cluster.step(w));
}

// Case A1 of docs/protocols/nessie.md: two DELETEs, A and B, read the key's word w. B's CAS empties the slot.
// A's CAS is flushed without being executed; A reconnects and finds EMPTY|w, which A wanted to write but B
// wrote.
bool two_deletes_of_one_value_are_ok(const std::string& mutant) {
  TestCluster cluster(shape_with({{"nessie.single-cas-delete", "on"}}, 4, mutant));
  const std::uint64_t key = cluster.key_at({1, 3});
  EXPECT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_remove(2, key);
  step_to_cas(cluster, 2);
  const Outcome b = cluster.remove(3, key);
  EXPECT_EQ(b.result.status, OpStatus::ok);
  cluster.fabric().fail_next(cluster.worker(2), false);
  const Outcome a = cluster.finish(2);
  if (a.result.status != OpStatus::ok) EXPECT_EQ(a.result.effect, kv::Effect::unknown);
  return a.result.status == OpStatus::ok;
}
TEST(FailingRequests, OneValueIsRemovedOnce) {
  EXPECT_FALSE(two_deletes_of_one_value_are_ok(""));
  EXPECT_TRUE(two_deletes_of_one_value_are_ok("desired-word-proves"));
}

// A DELETE's CAS ends in an error, and its client does not learn whether the CAS removed the entry. So the
// client does not stamp the entry (mark it as having left the index). The entry's owner has to find out that
// the entry may be reused.
TEST(FailingRequests, AnEntryWhoseRemoverIsUnknownIsUsedAgain) {
  for (const bool takes_effect : {true, false}) {
    TestCluster cluster(shape_with({{"nessie.single-cas-delete", "on"}, {"nessie.stamping", "eager"}}));
    const std::uint64_t key = cluster.key_at({1, 3});
    ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
    const EntryId entry = cluster.settings().format.entry(cluster.word(cluster.candidate(key, 0)));
    cluster.begin_remove(2, key);
    step_to_cas(cluster, 2);
    if (!takes_effect) ASSERT_EQ(cluster.remove(3, key).result.status, OpStatus::ok);
    cluster.fabric().fail_next(cluster.worker(2), takes_effect);
    EXPECT_EQ(cluster.finish(2).result.status, OpStatus::error);
    cluster.fabric().advance(2'000'000'000);
    // Node 0 executes PUTs of three other keys until it has reused the removed entry.
    bool is_used_again = false;
    for (std::uint64_t i = 0; i < 3'000 && !is_used_again; ++i) {
      const std::uint64_t other = 5'000 + i % 3;
      ASSERT_EQ(cluster.put(0, other, i).result.effect, kv::Effect::none);
      if (i % 50 == 0) cluster.flush(0);
      cluster.fabric().advance(20'000'000);
      is_used_again = cluster.meta(entry).generation != entry.generation;
    }
    EXPECT_TRUE(is_used_again) << takes_effect;
    EXPECT_TRUE(cluster.store().audit({}).empty()) << cluster.store().audit({}).front();
  }
}

// Case A2 of docs/protocols/nessie.md: the WRITE of a replaced entry's stamp (the mark that it has left the
// index) is executed, but its acknowledgement is lost. The owner reuses the entry at once for another key;
// then the stamp is written again with the old deadline.
bool a_repeated_stamp_loses_a_value(const std::string& mutant) {
  TestCluster cluster(shape_with({{"nessie.min-spare", "2"},
                                  {"nessie.overflow", "1"},
                                  {"nessie.load-factor", "0.05"},
                                  {"nessie.stamping", "lazy"},
                                  {"nessie.expiry", "10ms"},
                                  {"nessie.clock-margin", "100us"},
                                  {"nessie.cache", "off"}},
                                 2, mutant));
  const std::uint64_t k = cluster.key_at({0, 3});
  EXPECT_EQ(cluster.put(1, k, 1).result.status, OpStatus::ok);
  const EntryId old = cluster.settings().format.entry(cluster.word(cluster.candidate(k, 0)));
  EXPECT_EQ(old.node, 1u);
  // this PUT replaces the entry `old`; the stamp of `old` (mark that it left the index) then waits in node
  // 0's queue
  EXPECT_EQ(cluster.put(0, k, 2).result.status, OpStatus::ok);
  cluster.fabric().advance(30'000'000);
  cluster.begin_flush(0);
  EXPECT_NE(cluster.fabric().next(cluster.worker(0)), nullptr);
  // The next request of worker 0, the WRITE that marks the entry as having left the index, is executed, but
  // completes with an error.
  cluster.fabric().fail_next(cluster.worker(0), true);
  // The owner allocates entries until it reuses the entry that was marked as having left the index.
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < 200 && cluster.meta(old).generation == old.generation; ++i) {
    last = 9'000 + i;
    const Outcome put = cluster.put(1, last, i);
    if (put.result.status != OpStatus::ok) break;
  }
  EXPECT_NE(cluster.meta(old).generation, old.generation);
  cluster.finish(0);  // node 0 writes a second time the mark that the entry has left the index
  for (std::uint64_t i = 0; i < 40; ++i) static_cast<void>(cluster.put(1, 9'500 + i % 2, i));
  const bool is_lost = cluster.get(0, last).result.status != OpStatus::ok;
  return is_lost;
}
TEST(FailingRequests, AStampThatIsRepeatedFreesNoLiveEntry) {
  EXPECT_FALSE(a_repeated_stamp_loses_a_value(""));
  EXPECT_TRUE(a_repeated_stamp_loses_a_value("stamp-names-no-incarnation"));
}

class Outage : public ::testing::TestWithParam<const char*> {};

// Case A3 of docs/protocols/nessie.md: any one request of a PUT, DELETE or MIGRATE (move of a key) fails,
// executed or not, and its node is out of reach for longer than the operation waits. No client dies. When the
// node is back, the key must be readable and writable again.
void after_an_outage(const char* commit, int kind, bool is_new, bool takes_effect, std::uint32_t at,
                     bool* is_over) {
  TestCluster::Shape shape = shape_with({{"nessie.commit", commit}, {"nessie.attempts", "4"}});
  TestCluster cluster(shape);
  const std::uint64_t key = cluster.key_at({1, 3});
  if (!is_new) ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  if (kind == 0) cluster.begin_put(2, key, 2);
  if (kind == 1) cluster.begin_remove(2, key);
  if (kind == 2) cluster.begin_migrate(2, cluster.candidate(key, 0));
  const fabric::WorkRequest* next = nullptr;
  if (cluster.step(2, at)) next = cluster.fabric().next(cluster.worker(2));
  if (next == nullptr) {
    *is_over = true;
    return;
  }
  const fabric::NodeId out = next->peer;
  cluster.fabric().fail_next(cluster.worker(2), takes_effect);
  cluster.fabric().cut_off(out, true);
  const Outcome left = cluster.finish(2);
  cluster.fabric().cut_off(out, false);
  cluster.flush(2);
  const std::string what = fmt::format("kind {}, request {}, executed {}", kind, at, takes_effect);
  const std::vector<std::string> found = cluster.store().audit({});
  EXPECT_TRUE(found.empty()) << what << ": " << found.front();
  const Outcome seen = cluster.get(0, key);
  EXPECT_TRUE(seen.result.status == OpStatus::ok || seen.result.status == OpStatus::not_found) << what;
  if (kind != 1 && !is_new) EXPECT_EQ(seen.result.status, OpStatus::ok) << what;
  if (left.result.status == OpStatus::error && left.result.effect == kv::Effect::none && kind != 2) {
    EXPECT_EQ(seen.value, is_new ? std::nullopt : std::optional<std::uint64_t>(1)) << what;
  }
  for (const std::uint32_t w : {0u, 2u}) {
    EXPECT_EQ(cluster.put(w, key, 5).result.status, OpStatus::ok) << what;
    EXPECT_EQ(cluster.get(3, key).value, 5u) << what;
  }
  EXPECT_EQ(cluster.remove(1, key).result.status, OpStatus::ok) << what;
  EXPECT_EQ(cluster.get(0, key).result.status, OpStatus::not_found) << what;
}

TEST_P(Outage, NoKeyStaysLocked) {
  for (int kind = 0; kind < 3; ++kind) {
    for (const bool is_new : {false, true}) {
      if (is_new && kind != 0) continue;
      for (const bool takes_effect : {false, true}) {
        bool is_over = false;
        for (std::uint32_t at = 0; !is_over; ++at) {
          after_an_outage(GetParam(), kind, is_new, takes_effect, at, &is_over);
          ASSERT_LT(at, 50u);
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Commit, Outage, ::testing::Values("flip", "cas"));

TEST(OutageMutant, WithoutSettlementTheKeyIsLockedForEver) {
  TestCluster cluster(shape_with({}, 4, "forgets-unknown"));
  const std::uint64_t key = cluster.key_at({1, 3});
  cluster.begin_put(2, key, 2);
  step_to_cas(cluster, 2);
  cluster.fabric().fail_next(cluster.worker(2), true);
  cluster.fabric().cut_off(1, true);
  cluster.finish(2);
  cluster.fabric().cut_off(1, false);
  cluster.flush(2);
  EXPECT_EQ(cluster.put(0, key, 5).result.status, OpStatus::conflict);
  EXPECT_FALSE(cluster.store().audit({}).empty());
}

// ---- case A4 of docs/protocols/nessie.md: a node is lost with its memory

void lose_memory(TestCluster& cluster, fabric::NodeId node) {
  for (const std::string_view name : {index_region, data_region, members_region}) {
    fabric::Region* region = cluster.fabric().direct(node, name);
    std::memset(region->at(0), 0, region->bytes());
  }
}

// A GET of an acknowledged value whose memory was lost must be an error, not a miss, until the loss is
// declared.
TEST(LostMemory, IsAnErrorUntilItIsDeclared) {
  for (const char* mutant : {"", "lost-memory-is-a-miss"}) {
    TestCluster cluster(shape_with({{"nessie.cache", "off"}, {"nessie.completion", "cqe"}}, 4, mutant));
    const std::uint64_t key = cluster.key_at({1, 3}, {});
    ASSERT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);  // places the entry on node 2
    lose_memory(cluster, 2);
    cluster.begin_get(0, key);
    // The key's slot is on node 1, so that only the key's entry is lost: if the slot were on node 2, reading
    // the slot would already give an error.
    const Outcome got = cluster.finish(0);
    if (*mutant == 0)
      EXPECT_EQ(got.result.status, OpStatus::error);
    else
      EXPECT_NE(got.result.status, OpStatus::ok);
  }
}

// Expects that every key can be written, read and deleted again by the given workers.
void expect_service(TestCluster& cluster, const std::vector<std::uint64_t>& keys,
                    const std::vector<std::uint32_t>& workers) {
  for (const std::uint64_t key : keys) {
    for (const std::uint32_t w : workers) {
      EXPECT_EQ(cluster.put(w, key, key + w).result.status, OpStatus::ok) << key;
      EXPECT_EQ(cluster.get(workers.front(), key).value, key + w) << key;
    }
    EXPECT_EQ(cluster.remove(workers.back(), key).result.status, OpStatus::ok) << key;
    EXPECT_EQ(cluster.get(workers.front(), key).result.status, OpStatus::not_found) << key;
  }
}

TEST(LostMemory, ADeclaredNodeThatIsBackServesAgain) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "on"}, {"nessie.completion", "cqe"}}));
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 40; ++i) {
    keys.push_back(100 + i);
    ASSERT_EQ(cluster.put(static_cast<std::uint32_t>(i % 4), 100 + i, i).result.status, OpStatus::ok);
  }
  for (std::uint32_t w = 0; w < 4; ++w) cluster.flush(w);
  cluster.kill(2);
  lose_memory(cluster, 2);
  std::uint64_t errors = 0;
  for (const std::uint64_t key : keys) {
    const Outcome got = cluster.get(0, key);
    EXPECT_NE(got.result.status, OpStatus::not_found) << "a miss before the declaration";
    errors += got.result.status == OpStatus::error ? 1 : 0;
  }
  EXPECT_GT(errors, 10u);
  const Outcome declared = cluster.declare_lost(1, {2});
  EXPECT_TRUE(declared.is_complete);
  EXPECT_EQ(declared.scrubbed.at("shares_laid_out"), 1u);
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < keys.size(); ++i) {
    const Outcome got = cluster.get(0, keys[i]);
    EXPECT_TRUE(got.result.status == OpStatus::ok || got.result.status == OpStatus::not_found);
    if (got.result.status != OpStatus::ok) continue;
    EXPECT_EQ(got.value, i);
    ++kept;
  }
  EXPECT_GT(kept, 10u);
  for (const std::uint32_t w : {0u, 1u, 3u}) cluster.flush(w);
  const std::vector<std::string> found = cluster.store().audit({});
  EXPECT_TRUE(found.empty()) << found.front();
  expect_service(cluster, keys, {0, 1, 3});
}

TEST(LostMemory, TheShareOfANodeThatStaysAwayIsAdopted) {
  TestCluster cluster(
      shape_with({{"nessie.leak-scan", "on"}, {"nessie.cache", "on"}, {"nessie.cache-fraction", "1"}}));
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 40; ++i) {
    keys.push_back(100 + i);
    ASSERT_EQ(cluster.put(static_cast<std::uint32_t>(i % 4), 100 + i, i).result.status, OpStatus::ok);
    ASSERT_EQ(cluster.get(3, 100 + i).value, i);  // fills the cache of node 3
  }
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  const Outcome declared = cluster.declare_lost(1, {2});
  EXPECT_TRUE(declared.is_complete);
  EXPECT_EQ(declared.scrubbed.at("shares_laid_out"), 1u);
  // Worker 1, which declared the loss of node 2's memory, and worker 3, which learned of the loss from its
  // node's member table (nodes' incarnations), must agree on every key.
  for (const std::uint64_t key : keys) {
    const Outcome by_one = cluster.get(1, key);
    const Outcome by_other = cluster.get(3, key);
    EXPECT_EQ(by_one.result.status, by_other.result.status);
    EXPECT_EQ(by_one.value, by_other.value);
  }
  for (const std::uint32_t w : {0u, 1u, 3u}) cluster.flush(w);
  const std::vector<std::string> found = cluster.store().audit({2});
  EXPECT_TRUE(found.empty()) << found.front();
  expect_service(cluster, keys, {0, 1, 3});
}

// A client that read the key's word before the declaration and then updates it by a single CAS must not
// bring the lost key's word back into use.
TEST(LostMemory, AnUpdateThatBeganBeforeTheDeclarationIsNotInTwoPlaces) {
  TestCluster cluster(
      shape_with({{"nessie.fast-update", "on"}, {"nessie.cache", "on"}, {"nessie.cache-fraction", "1"}}));
  const std::uint64_t key = cluster.key_at({1, 3}, {});
  ASSERT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);
  ASSERT_EQ(cluster.get(3, key).value, 1u);  // the entry is now in node 3's cache
  cluster.begin_put(3, key, 7);
  step_to_cas(cluster, 3);
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  ASSERT_TRUE(cluster.declare_lost(0, {2}).is_complete);
  ASSERT_EQ(cluster.get(1, key).result.status, OpStatus::not_found);
  ASSERT_EQ(cluster.put(1, key, 8).result.status, OpStatus::ok);
  const Outcome late = cluster.finish(3);
  ASSERT_EQ(late.result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(0, key).value, 7u);
  cluster.flush(1);
  cluster.flush(3);
  const std::vector<std::string> found = cluster.store().audit({2});
  EXPECT_TRUE(found.empty()) << found.front();
}

// The repair of a dead client (scrub) rolls the client's PUT back: it restores the word that the PUT had
// replaced, but the memory of the entry that this word names was declared lost meanwhile (found by the
// fuzzer's seed 20027850).
TEST(LostMemory, AScrubThatBringsALostWordBackIsComplete) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "on"}}));
  const std::uint64_t key = cluster.key_at({1, 0}, {});
  ASSERT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);
  cluster.begin_put(3, key, 7);
  step_to_cas(cluster, 3);
  ASSERT_TRUE(cluster.step(3));  // the PUT's entry is linked
  cluster.kill(3);
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  ASSERT_TRUE(cluster.declare_lost(0, {2}).is_complete);
  const Outcome scrubbed = cluster.scrub(0, {3});
  EXPECT_TRUE(scrubbed.is_complete);
  EXPECT_EQ(scrubbed.scrubbed.at("puts_taken_back"), 1u);
  EXPECT_EQ(cluster.get(1, key).result.status, OpStatus::not_found);
  expect_service(cluster, {key}, {0, 1});
}

// A client dies in the middle of a MIGRATE (move of a key), and the node of the target slot is lost. Then no
// word names the copy, for which the source slot is reserved (found by the fuzzer's seed 30025432).
bool is_slot_of_lost_copy_freed(const std::string& mutant) {
  TestCluster cluster(shape_with({{"nessie.leak-scan", "on"}, {"nessie.commit", "cas"}}, 4, mutant));
  std::uint64_t key = cluster.key_at({1, 0});
  while (cluster.candidate(key, 1).node != 2) key = cluster.key_at({1, 0});
  EXPECT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_migrate(3, {1, 0});
  // the copy made by the MIGRATE (move of a key) is now in its target slot, and its source slot is reserved
  cluster.step_through_cas(3, 2);
  cluster.kill(3);
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  EXPECT_TRUE(cluster.settings().format.is_tagged(cluster.word({1, 0})));
  EXPECT_TRUE(cluster.declare_lost(0, {2}).is_complete);
  const Outcome scrubbed = cluster.scrub(0, {3});
  EXPECT_TRUE(scrubbed.is_complete);
  EXPECT_EQ(scrubbed.scrubbed.contains("slots_freed"), mutant.empty());
  EXPECT_FALSE(cluster.scrub(0, {3}).scrubbed.contains("slots_freed")) << "it is counted once";
  EXPECT_EQ(cluster.get(1, key).result.status, OpStatus::not_found);
  const bool is_freed = !cluster.settings().format.is_tagged(cluster.word({1, 0}));
  const std::vector<std::string> found = cluster.store().audit({2});
  EXPECT_EQ(found.empty(), is_freed) << (found.empty() ? "" : found.front());
  if (is_freed) {
    EXPECT_EQ(cluster.put(1, key, 2).result.status, OpStatus::ok);
    EXPECT_FALSE(cluster.settings().format.is_empty(cluster.word({1, 0})));
    expect_service(cluster, {key}, {0, 1});
  }
  return is_freed;
}
TEST(LostMemory, TheSlotOfACopyThatWasLostWithItsTargetIsFreed) {
  EXPECT_TRUE(is_slot_of_lost_copy_freed(""));
  EXPECT_FALSE(is_slot_of_lost_copy_freed("scrub-keeps-tags"));
}

TEST(LostMemory, WithoutSpareRoomItSaysWhatIsMissing) {
  TestCluster cluster(shape_with({{"nessie.spare-shares", "0"}}));
  cluster.kill(2);
  cluster.fabric().cut_off(2, true);
  const Outcome declared = cluster.declare_lost(1, {2});
  EXPECT_FALSE(declared.is_complete);
  EXPECT_EQ(declared.scrubbed.at("shares_without_a_place"), 1u);
  // The lost node comes back with empty memory and is declared lost again.
  cluster.fabric().cut_off(2, false);
  lose_memory(cluster, 2);
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  expect_service(cluster, {7, 8, 9, 10}, {0, 1, 3});
}

// A declaration of loss that could not reach every node is repeated. The second declaration must not remove
// values that were stored on the returned node after the first declaration.
TEST(LostMemory, ADeclarationThatGoesOnTakesNothingTwice) {
  TestCluster cluster(shape_with({{"nessie.completion", "cqe"}}));
  cluster.kill(2);
  lose_memory(cluster, 2);
  // All nodes have the final member table (nodes' incarnations) and node 2's share of the index is
  // initialised; then node 3 is cut off, so that the declaration cannot read node 3's share.
  cluster.begin_declare(1, {2});
  while (cluster.store().counters().at("members_told") < 8) ASSERT_TRUE(cluster.step(1));
  cluster.fabric().cut_off(3, true);
  EXPECT_FALSE(cluster.finish(1).is_complete);
  cluster.fabric().cut_off(3, false);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 40; ++i) {
    keys.push_back(500 + i);
    ASSERT_EQ(cluster.put(0, 500 + i, i).result.status, OpStatus::ok);
  }
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  for (std::uint64_t i = 0; i < keys.size(); ++i) EXPECT_EQ(cluster.get(3, keys[i]).value, i);
  // A second loss of the same node's memory can be declared too.
  lose_memory(cluster, 2);
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  expect_service(cluster, keys, {0, 1, 3});
}

std::uint32_t incarnation_told(TestCluster& cluster, fabric::NodeId to, std::uint32_t of) {
  return Member::unpack(fabric::load_word(cluster.store().local(to).members->at(8 * (1 + of))), of)
      .incarnation;
}

// A declaration of a node's loss is interrupted when only some nodes have the new member table. The returned
// node already knows its new incarnation and may have stored values under it, so repeating the declaration
// must not change the incarnation.
TEST(LostMemory, ADeclarationThatGoesOnGivesNoSecondIncarnation) {
  TestCluster cluster(shape_with({{"nessie.completion", "cqe"}}));
  cluster.kill(2);
  lose_memory(cluster, 2);
  cluster.begin_declare(1, {2});
  while (cluster.store().counters().at("members_told") < 3) ASSERT_TRUE(cluster.step(1));
  cluster.fabric().cut_off(3, true);
  EXPECT_FALSE(cluster.finish(1).is_complete);
  EXPECT_EQ(incarnation_told(cluster, 2, 2), 1u);
  EXPECT_EQ(incarnation_told(cluster, 3, 2), 0u);
  cluster.fabric().cut_off(3, false);
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  for (const fabric::NodeId node : {0, 1, 2, 3}) EXPECT_EQ(incarnation_told(cluster, node, 2), 1u);
}

// A lost node that returns while a declaration writes the new member table to the nodes gets the table too.
// If the declaration cannot write the final table, with the places of the index's shares, to that node, the
// declaration is incomplete.
TEST(LostMemory, ANodeThatIsToldOfItsLossIsToldTheEnd) {
  TestCluster cluster(shape_with({{"nessie.completion", "cqe"}}));
  cluster.kill(2);
  lose_memory(cluster, 2);
  cluster.fabric().cut_off(2, true);  // the node does not answer yet when the declaration begins
  cluster.begin_declare(1, {2});
  while (cluster.store().counters().at("members_told") < 1) ASSERT_TRUE(cluster.step(1));
  cluster.fabric().cut_off(2, false);
  while (cluster.store().counters().at("members_told") < 5) ASSERT_TRUE(cluster.step(1));
  EXPECT_EQ(incarnation_told(cluster, 2, 2), 1u);
  // Node 2's share of the index has been initialised, and node 0's member table tells where it lies; now node
  // 2 is cut off again.
  cluster.fabric().cut_off(2, true);
  EXPECT_FALSE(cluster.finish(1).is_complete);
  cluster.fabric().cut_off(2, false);
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  for (const fabric::NodeId node : {0, 1, 2, 3}) {
    const Word said = fabric::load_word(cluster.store().local(node).members->at(8 * (1 + 2)));
    EXPECT_FALSE(Member::unpack(said, 2).is_void) << "as node " << node << " knows it";
    EXPECT_EQ(incarnation_told(cluster, node, 2), 1u);
  }
}

// A declaration of node 2's loss stops halfway, and a PUT stores a value. The declaration is repeated while
// only node 2 answers, whose member table (nodes' incarnations) is empty: the repeated declaration must not
// take this table for the newest one and begin anew. Returns whether the value is still there.
bool is_kept_by_a_blind_repair(const std::string& mutant) {
  TestCluster cluster(shape_with({{"nessie.completion", "cqe"}}, 4, mutant));
  cluster.kill(2);
  lose_memory(cluster, 2);
  cluster.fabric().cut_off(2, true);
  cluster.begin_declare(1, {2});  // node 2's share of the index gets a new host; then node 3 is cut off
  while (cluster.store().counters().at("members_told") < 6) EXPECT_TRUE(cluster.step(1));
  cluster.fabric().cut_off(3, true);
  EXPECT_FALSE(cluster.finish(1).is_complete);
  cluster.fabric().cut_off(3, false);
  const std::uint64_t key = cluster.key_at({2, 1}, {});
  EXPECT_EQ(cluster.put(0, key, 7).result.status, OpStatus::ok);
  cluster.fabric().cut_off(2, false);
  cluster.begin_declare(1, {2});
  for (const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(1));
       next != nullptr && next->verb == fabric::Verb::read; next = cluster.fabric().next(cluster.worker(1))) {
    if (next->peer != 2) cluster.fabric().fail_next(cluster.worker(1), false);
    if (next->peer == 2) EXPECT_TRUE(cluster.step(1));
  }
  EXPECT_EQ(cluster.finish(1).is_complete, !mutant.empty());
  EXPECT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  const Outcome got = cluster.get(0, key);
  return got.result.status == OpStatus::ok && got.value == 7;
}
TEST(LostMemory, ARepairThatCannotAskWhoIsNotLostDoesNothing) {
  EXPECT_TRUE(is_kept_by_a_blind_repair(""));
  EXPECT_FALSE(is_kept_by_a_blind_repair("declares-by-some"));
}

// A new connection to a node does not change the node's incarnation, which only the member table tells.
TEST(LostMemory, ANewConnectionKeepsTheIncarnation) {
  TestCluster cluster(shape_with({}));
  cluster.kill(2);
  lose_memory(cluster, 2);
  ASSERT_TRUE(cluster.declare_lost(1, {2}).is_complete);
  const std::uint64_t key = cluster.key_at({2, 3}, {});
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  const Peer& peer = cluster.store().local(0).workers[0]->peers[2];
  const std::uint32_t before = peer.epoch;
  ASSERT_EQ(peer.incarnation, 1u);
  cluster.begin_get(0, key);
  // The next request of worker 0, the READ of the first slot on node 2, fails.
  cluster.fabric().fail_next(cluster.worker(0), false);
  EXPECT_EQ(cluster.finish(0).value, 1u);
  EXPECT_NE(peer.epoch, before);
  EXPECT_EQ(peer.incarnation, 1u);
}

// ---- table entries that may have leaked (doubts.h) are examined while an operation is under way

coro::Task<void> migrate_alongside_background(TestCluster* cluster, NessieClient* client,
                                              cuckoo::Place source, Attempt* moved) {
  fabric::Worker& worker = cluster->worker(2);
  bool is_done = false;
  fabric::OpStats stats;
  coro::Scope scope(worker.run_queue());
  scope.spawn(cluster->store().background(worker, &is_done));
  const Attempt ended = co_await client->migrate_from(source, &stats);
  *moved = ended;
  is_done = true;
  co_await scope.join();
}

// A key whose first candidate is `place` and whose other candidates are on the nodes `one` and `other`.
std::uint64_t key_on(TestCluster& cluster, cuckoo::Place place, std::uint32_t one, std::uint32_t other) {
  for (;;) {
    const std::uint64_t key = cluster.key_at(place);
    bool is_there = true;
    for (std::uint32_t i = 0; i < cluster.settings().functions(); ++i) {
      const std::uint32_t node = cluster.candidate(key, i).node;
      is_there = is_there && (node == one || node == other);
    }
    if (is_there) return key;
  }
}

// A worker's MIGRATE (move of a key) has written a copy that no index word names yet, and the worker is to
// examine two entries (doubts.h): the copy, which must wait until the MIGRATE has ended, and an entry that a
// dead client removed but did not mark as having left the index, which is found to be free.
TEST(Doubts, OfACopyInHandWaitAndOthersAreSettled) {
  TestCluster cluster(shape_with({{"nessie.stamping", "lazy"}, {"nessie.cache", "off"}}));
  const std::uint64_t key = key_on(cluster, {1, 3}, 0, 1), gone = key_on(cluster, {3, 5}, 2, 3);
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  ASSERT_EQ(cluster.put(2, gone, 1).result.status, OpStatus::ok);
  const EntryId leaked = cluster.settings().format.entry(cluster.word(cluster.candidate(gone, 0)));
  ASSERT_EQ(leaked.node, 2u);
  ASSERT_EQ(cluster.remove(3, gone).result.status, OpStatus::ok);
  cluster.kill(3);

  const std::unique_ptr<kv::Client> client = cluster.store().client(cluster.worker(2), 0);
  auto& mover = static_cast<NessieClient&>(*client);
  Attempt moved = Attempt::conflict;
  StepFabric& fabric = cluster.fabric();
  fabric::Worker& worker = cluster.worker(2);
  fabric.start(worker, migrate_alongside_background(&cluster, &mover, cluster.candidate(key, 0), &moved));
  const auto copy = [&]() -> std::optional<std::uint32_t> {
    for (std::uint32_t index = 0; index < 40; ++index) {
      if (cluster.meta({2, index, 0}).kind == EntryKind::copy) return index;
    }
    return std::nullopt;
  };
  while (!copy()) ASSERT_TRUE(cluster.step(2));
  ASSERT_EQ(fabric.posted(worker), 1u) << "the READ of a target";
  DataTable& table = cluster.store().local(2).workers[0]->table;
  table.doubt(leaked.index);
  // The copy made by the MIGRATE (move of a key) is examined first, because the entry that was put in doubt
  // last is examined first.
  table.doubt(*copy());
  for (int i = 0; i < 100 && cluster.counter("leaks_found") == 0; ++i) {
    if (fabric.posted(worker) < 2) {
      fabric.ring(worker, StepFabric::Alarms::timers);
    } else {
      ASSERT_TRUE(fabric.is_executable(worker, 1));
      fabric.execute(worker, 1, fabric::step::Fate::executed);
    }
    fabric.drain(worker);
  }
  EXPECT_EQ(cluster.counter("leaks_found"), 1);
  EXPECT_EQ(cluster.counter("doubts_cleared"), 0);
  fabric.finish(worker);
  EXPECT_EQ(moved, Attempt::ok);
  EXPECT_EQ(cluster.counter("leaks_found"), 1);
  EXPECT_EQ(cluster.counter("doubts_cleared"), 1);
  EXPECT_EQ(cluster.get(1, key).value, 1u);
  EXPECT_TRUE(cluster.scrub_clients(0, {{3, 0}}).is_complete);
  EXPECT_TRUE(cluster.store().audit({}).empty()) << cluster.store().audit({}).front();
}

}  // namespace
}  // namespace loch::nessie::testing
