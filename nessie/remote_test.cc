// Tests Nessie with its tables on memory nodes (nessie.placement remote): which entries a client owns, the
// order of an entry's WRITE and the CAS that links it, WRITEs that end in an error, dead clients, and many
// clients on the simulator and over shared memory.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "nessie/holdings.h"
#include "nessie/test_cluster.h"
#include "tests/support/store_cluster.h"
#include "tests/support/store_loads.h"

namespace loch::nessie::testing {
namespace {

using support::make_fabric, support::small_deploy, support::StoreCluster;
using Options = std::map<std::string, std::string>;

const WordFormat& format() {
  static const WordFormat made(Layout::y2017, hardened(), 7);
  return made;
}

TEST(Holdings, UsesARunOnceAndAReturnedEntryWithTheSameGeneration) {
  Holdings own(format(), 2, 5);
  EXPECT_EQ(own.left(1), 0u);
  own.add(1, {40, 2});
  EXPECT_EQ(own.left(0), 0u);
  EXPECT_EQ(own.left(1), 2u);
  EXPECT_EQ(own.take(0), std::nullopt);
  EXPECT_EQ(own.take(1), (EntryId{1, 40, 1}));
  EXPECT_EQ(own.take(1), (EntryId{1, 41, 1}));
  EXPECT_EQ(own.take(1), std::nullopt);
  own.give_back({1, 40, 1});
  EXPECT_EQ(own.take(1), (EntryId{1, 40, 1}));
}

TEST(Holdings, ReusesARetiredEntryAfterItsTimeWithTheNextGeneration) {
  Holdings own(format(), 1, 5);
  own.retire({0, 7, 3}, 1'000);
  own.retire({0, 8, 0x3FFF}, 2'000);
  own.reclaim(1'000);
  EXPECT_EQ(own.left(0), 0u) << "its time has come only after 1'000";
  EXPECT_EQ(own.owned(0), (std::vector<std::uint32_t>{7, 8}));
  own.reclaim(1'001);
  EXPECT_EQ(own.take(0), (EntryId{0, 7, 4}));
  own.reclaim(3'000);
  EXPECT_EQ(own.take(0), (EntryId{0, 8, 1})) << "generation 0 is that of the initial table";
  EXPECT_EQ(own.counts().recycled, 2u);
}

// ---- scripts

TestCluster::Shape two_memory_nodes(const std::string& mutant = {}, Options more = {}) {
  more["nessie.placement"] = "remote";
  return {.nodes = 4, .keys = 4, .options = more, .mutant = mutant, .server_nodes = 2};
}

// The verbs of a PUT in the order in which its requests are posted, and whether a CAS was posted while a
// WRITE was not executed yet.
struct Order {
  std::string verbs;
  bool does_overtake = false;
};
Order order_of_put(TestCluster& cluster, std::uint64_t key) {
  Order order;
  cluster.begin_put(0, key, 77);
  StepFabric& fabric = cluster.fabric();
  fabric::Worker& worker = cluster.worker(0);
  for (fabric.drain(worker); fabric.posted(worker) > 0; fabric.drain(worker)) {
    bool has_write = false;
    for (std::size_t i = 0; i < fabric.posted(worker); ++i) {
      const fabric::Verb verb = fabric.request(worker, i).verb;
      if (verb == fabric::Verb::cas && has_write) order.does_overtake = true;
      has_write = has_write || verb == fabric::Verb::write;
    }
    const fabric::Verb verb = fabric.request(worker, 0).verb;
    order.verbs += verb == fabric::Verb::read ? 'r' : verb == fabric::Verb::write ? 'w' : 'c';
    fabric.step(worker, false);
  }
  static_cast<void>(cluster.finish(0));
  return order;
}

TEST(Remote, AnEntryIsInMemoryBeforeItIsLinked) {
  TestCluster cluster(two_memory_nodes());
  const Order update = order_of_put(cluster, 1);
  EXPECT_FALSE(update.does_overtake) << update.verbs;
  // header of the old entry among the READs; the entry's WRITE and a READ behind it; CAS; two slots again;
  // the valid bit's WRITE and a READ behind it
  EXPECT_EQ(update.verbs, "rrrrwrcrrwr");
  EXPECT_EQ(cluster.get(1, 1).value, 77u);
  const Order insert = order_of_put(cluster, 1'000);
  EXPECT_EQ(insert.verbs, "rrrwrcrrwr");
  EXPECT_EQ(cluster.get(1, 1'000).value, 77u);
  EXPECT_TRUE(cluster.store().audit({}).empty());
}

TEST(Remote, ACommitByCasWritesNoValidBit) {
  TestCluster cluster(two_memory_nodes({}, {{"nessie.commit", "cas"}}));
  EXPECT_EQ(order_of_put(cluster, 1'000).verbs, "rrrwrcrrc");
  EXPECT_EQ(cluster.get(1, 1'000).value, 77u);
}

TEST(Remote, TheKnownBadOneDoesNotWait) {
  TestCluster cluster(two_memory_nodes("link-overtakes-write"));
  EXPECT_TRUE(order_of_put(cluster, 1'000).does_overtake);
}

// Runs worker 0's PUT until it posts a WRITE of eight bytes, the valid bit of its entry.
void step_to_valid_bit(TestCluster& cluster) {
  const fabric::WorkRequest* next = cluster.fabric().next(cluster.worker(0));
  while (next->verb != fabric::Verb::write || next->length != 8) {
    ASSERT_TRUE(cluster.step(0));
    next = cluster.fabric().next(cluster.worker(0));
    ASSERT_NE(next, nullptr);
  }
}

// The WRITE of the valid bit ends in an error. Before its client learns of it, another one replaces the
// value, and the entry is used for another key: to repeat the WRITE then would change that key's entry.
TEST(Remote, AValidBitThatWasSetIsNotSetAgain) {
  for (const bool was_executed : {true, false}) {
    Options options = {{"nessie.expiry", "1ms"}, {"nessie.clock-margin", "0ns"}, {"nessie.cache", "false"}};
    TestCluster cluster(two_memory_nodes({}, options));
    cluster.begin_put(0, 2'000, 5);
    step_to_valid_bit(cluster);
    cluster.fabric().fail_next(cluster.worker(0), was_executed);
    if (was_executed) {
      EXPECT_EQ(cluster.get(1, 2'000).value, 5u) << "committed";
      EXPECT_EQ(cluster.put(1, 2'000, 6).result.status, kv::OpStatus::ok);
      cluster.fabric().advance(2'000'000);
      for (std::uint64_t i = 0; i < 4; ++i)  // the entry that worker 1 has retired is the next that it takes
        EXPECT_EQ(cluster.put(1, 3'000 + i, 30 + i).result.status, kv::OpStatus::ok);
    } else {
      EXPECT_EQ(cluster.get(1, 2'000).result.status, kv::OpStatus::conflict) << "pending";
    }
    EXPECT_EQ(cluster.finish(0).result.status, kv::OpStatus::ok);
    EXPECT_EQ(cluster.get(1, 2'000).value, was_executed ? 6u : 5u);
    for (std::uint64_t i = 0; was_executed && i < 4; ++i) EXPECT_EQ(cluster.get(0, 3'000 + i).value, 30 + i);
    cluster.flush(0);
    EXPECT_TRUE(cluster.store().audit({}).empty());
  }
}

// The memory node is out of reach when the valid bit is to be set: the PUT's outcome is unknown, and its
// client completes it when the node is back.
TEST(Remote, AnUnknownCommitIsCompletedLater) {
  TestCluster cluster(two_memory_nodes());
  cluster.begin_put(0, 2'000, 5);
  step_to_valid_bit(cluster);
  for (const fabric::NodeId node : {0, 1}) cluster.fabric().cut_off(node, true);
  const Outcome put = cluster.finish(0);
  EXPECT_EQ(put.result.status, kv::OpStatus::error);
  EXPECT_EQ(put.result.effect, kv::Effect::unknown);
  for (const fabric::NodeId node : {0, 1}) cluster.fabric().cut_off(node, false);
  EXPECT_EQ(cluster.get(1, 2'000).result.status, kv::OpStatus::conflict) << "pending";
  cluster.flush(0);
  EXPECT_EQ(cluster.counter("unfinished_settled"), 1);
  EXPECT_EQ(cluster.get(1, 2'000).value, 5u);
  EXPECT_TRUE(cluster.store().audit({}).empty());
}

// A client that replaces a value owns the entry of the old one, whoever wrote it, and uses it for its next
// PUT once the expiry period is over.
TEST(Remote, WhoReplacesAnEntryOwnsIt) {
  Options options = {{"nessie.expiry", "1ms"}, {"nessie.clock-margin", "0ns"}, {"nessie.cache", "false"}};
  TestCluster cluster(two_memory_nodes({}, options));
  EXPECT_EQ(cluster.put(1, 2'000, 5).result.status, kv::OpStatus::ok);
  EXPECT_EQ(cluster.put(0, 2'000, 6).result.status, kv::OpStatus::ok);
  EXPECT_EQ(cluster.counter("dte_recycled"), 0);
  cluster.fabric().advance(2'000'000);
  for (std::uint64_t i = 0; i < 2; ++i)
    EXPECT_EQ(cluster.put(0, 3'000 + i, 7).result.status, kv::OpStatus::ok);
  EXPECT_EQ(cluster.counter("dte_recycled"), 1);
  EXPECT_EQ(cluster.counter("stamps_remote") + cluster.counter("stamps_local"), 0);
  bool is_reused = false;
  for (const Word word : cluster.occupied())
    is_reused = is_reused || cluster.settings().format.entry(word).generation == 2;
  EXPECT_TRUE(is_reused);
  EXPECT_TRUE(cluster.store().audit({}).empty());
}

// A client dies at each step of a PUT, MIGRATE or DELETE: after the scrub every key has a value that it had
// or was given, and can be written.
TEST(Remote, ADeadClientIsScrubbed) {
  std::map<std::string, std::uint64_t> repairs;
  for (const char* commit : {"flip", "cas"}) {
    for (const char* operation : {"put", "delete", "migrate"}) {
      for (std::uint32_t steps = 1; steps < 30; ++steps) {
        TestCluster cluster(two_memory_nodes({}, {{"nessie.commit", commit}}));
        const std::string what = operation;
        if (what == "put") cluster.begin_put(0, 1, 77);
        if (what == "delete") cluster.begin_remove(0, 1);
        if (what == "migrate") {
          std::uint32_t rank = 0;
          while (cluster.settings().format.is_empty(cluster.word(cluster.candidate(1, rank)))) ++rank;
          cluster.begin_migrate(0, cluster.candidate(1, rank));
        }
        const bool is_running = cluster.step(0, steps);
        cluster.kill(0);
        const Outcome scrub = cluster.scrub_clients(1, {{2, 0}});
        EXPECT_TRUE(scrub.is_complete);
        for (const auto& [kind, count] : scrub.scrubbed) repairs[kind] += count;
        const Outcome got = cluster.get(1, 1);
        const bool may_be_gone = what == "delete";
        EXPECT_TRUE(got.value == 1'001u || (what == "put" && got.value == 77u) ||
                    (may_be_gone && got.result.status == kv::OpStatus::not_found))
            << what << " " << commit << " " << steps;
        EXPECT_EQ(cluster.put(1, 1, 88).result.status, kv::OpStatus::ok) << what << " " << steps;
        EXPECT_EQ(cluster.get(1, 1).value, 88u);
        EXPECT_TRUE(cluster.store().audit({}).empty()) << what << " " << commit << " " << steps;
        if (!is_running) break;
      }
    }
  }
  EXPECT_GT(repairs["puts_taken_back"], 0u);
  EXPECT_GT(repairs["deletes_taken_back"], 0u);
  EXPECT_GT(repairs["copies_committed"], 0u);
  EXPECT_GT(repairs["copies_dropped"], 0u);
}

// Entries name their writers: while one cannot be read, nobody knows whether a dead client has left it
// pending.
TEST(Remote, AScrubThatCannotReadAnEntryIsNotComplete) {
  TestCluster cluster(two_memory_nodes());
  cluster.begin_put(0, 2'000, 5);
  cluster.step_through_cas(0, 1);
  cluster.kill(0);
  StepFabric& fabric = cluster.fabric();
  fabric::Worker& worker = cluster.worker(1);
  cluster.begin_scrub(1, {{2, 0}});
  std::uint32_t failed = 0;
  while (const fabric::WorkRequest* next = fabric.next(worker)) {
    if (next->verb == fabric::Verb::read && next->length == cluster.settings().entry.header_bytes()) {
      fabric.fail_next(worker, false);
      ++failed;
    } else {
      ASSERT_TRUE(cluster.step(1));
    }
  }
  EXPECT_FALSE(cluster.finish(1).is_complete);
  EXPECT_GE(failed, 10u) << "two tries of each of the five entries";
  const Outcome again = cluster.scrub_clients(1, {{2, 0}});
  EXPECT_TRUE(again.is_complete);
  EXPECT_EQ(again.scrubbed.at("puts_taken_back"), 1u);
  EXPECT_EQ(cluster.get(1, 2'000).result.status, kv::OpStatus::not_found);
}

// ---- many clients

class RemoteOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, RemoteOn, ::testing::Values("sim", "shm"));

TEST_P(RemoteOn, ManyClientsOnFewKeys) {
  const std::vector<Options> variants = {
      {},
      {{"nessie.allocation", "chunks"}, {"nessie.chunk-blocks", "4"}, {"nessie.min-spare", "64"}},
      {{"nessie.commit", "cas"}, {"nessie.completion", "cqe"}, {"nessie.load-factor", "0.8"}},
      {{"nessie.fast-update", "on"}, {"nessie.single-cas-delete", "on"}, {"nessie.multi-read", "on"}},
      {{"nessie.expiry", "2ms"}, {"nessie.clock-margin", "100us"}, {"nessie.min-spare", "64"}},
  };
  const auto module = make_module();
  for (Options options : variants) {
    options["nessie.placement"] = "remote";
    kv::DeployConfig config = small_deploy(4, 2, 1, 24);
    config.server_nodes = 2;
    config.server_workers = options.contains("nessie.allocation") ? 1 : 0;
    StoreCluster cluster(make_fabric(GetParam(), {.nodes = 4}), *module,
                         {.config = config, .options = options});
    support::Tally tally;
    for (std::size_t w = 0; w < cluster.workers(); ++w)
      cluster.start(w, [&](support::Lane* lane) { return support::work(lane, 24, 300, &tally); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(tally.torn + tally.foreign, 0u);
    EXPECT_GT(tally.ok, 600u);
    EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{});
    if (options.contains("nessie.allocation")) {
      // at least one ALLOC from each of the four clients to each of the two nodes
      EXPECT_GE(cluster.counter("allocs"), 8);
      EXPECT_EQ(cluster.counter("allocs_unanswered"), 0);
    }
  }
}

coro::Task<void> put_often(support::Lane* lane, std::uint64_t puts) {
  for (std::uint64_t i = 0; i < puts; ++i) {
    const support::Lane::Outcome put = co_await lane->put(i % 24, i);
    EXPECT_NE(put.result.status, kv::OpStatus::table_full);
  }
}

// Number of chunks (runs of entries) that the memory nodes have given out after so many updates of 24 keys by
// each of four clients.
double chunks_after(std::uint64_t puts) {
  kv::DeployConfig config = small_deploy(4, 2, 1, 24);
  config.server_nodes = 2;
  config.server_workers = 1;
  const auto module = make_module();
  StoreCluster cluster(make_fabric("sim", {.nodes = 4}), *module,
                       {.config = config,
                        .options = {{"nessie.placement", "remote"},
                                    {"nessie.allocation", "chunks"},
                                    {"nessie.chunk-blocks", "4"},
                                    {"nessie.expiry", "300us"},
                                    {"nessie.clock-margin", "10us"}}});
  for (std::size_t w = 0; w < cluster.workers(); ++w)
    cluster.start(w, [&](support::Lane* lane) { return put_often(lane, puts); });
  EXPECT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{});
  return cluster.counter("chunks_given");
}

// An update frees as many entries as it uses: once the entries that wait for their expiry are enough for the
// rate of updates, clients ask for no more, however long they go on.
TEST(RemoteOnSim, UpdatesUseNoMoreMemoryTheLongerTheyLast) {
  const double chunks = chunks_after(2'000);
  EXPECT_GT(chunks, 8);
  EXPECT_EQ(chunks_after(16'000), chunks);
}

// One GET of each key, and a PUT; counts the GETs that end in an error or without the key.
struct AfterCrash {
  std::uint64_t errors = 0, misses = 0, ok = 0, slow = 0;
};
coro::Task<void> read_all(support::Lane* lane, Nanos from, AfterCrash* seen) {
  fabric::Worker& worker = lane->worker();
  co_await worker.sleep_until(from);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t key = 0; key < 24; ++key) {
      const Nanos before = worker.now();
      const support::Lane::Outcome got = co_await lane->get(key);
      if (got.result.status == kv::OpStatus::ok) ++seen->ok;
      if (got.result.status == kv::OpStatus::error) ++seen->errors;
      if (got.result.status == kv::OpStatus::not_found) ++seen->misses;
      constexpr Nanos at_once = 1'000'000;
      if (round > 0 && worker.now() - before > at_once) ++seen->slow;
    }
  }
}

// A memory node comes back with empty memory: what needs it ends in an error, at once and not after the
// expiry period for which a client polls a word without watermark, and never in a miss.
TEST(RemoteOnSim, AMemoryNodeThatCameBackEmptyMakesErrors) {
  fabric::sim::SimFaults faults;
  faults.schedule.push_back(
      {.kind = fabric::sim::ScheduledFault::Kind::crash, .node = 1, .at = 100'000, .span = 100'000});
  kv::DeployConfig config = small_deploy(4, 1, 1, 24);
  config.server_nodes = 2;
  config.server_workers = 0;
  const auto module = make_module();
  StoreCluster cluster(make_fabric("sim", {.nodes = 4, .faults = faults}), *module,
                       {.config = config, .options = {{"nessie.placement", "remote"}}});
  AfterCrash seen;
  for (std::size_t w = 0; w < cluster.workers(); ++w)
    cluster.start(w, [&](support::Lane* lane) { return read_all(lane, 1'000'000, &seen); });
  ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(seen.misses, 0u);
  EXPECT_GT(seen.errors, 0u);
  EXPECT_GT(seen.ok, 0u);
  EXPECT_EQ(seen.slow, 0u);
}

// ---- what is refused

std::string refusal(const kv::DeployConfig& config, const Options& chosen) {
  const auto module = make_module();
  kv::Options options(module->options());
  for (const auto& [key, value] : chosen) EXPECT_TRUE(options.set(key, value).has_value());
  const auto deployed = module->deploy(config, options, {});
  return deployed.has_value() ? "" : deployed.error().message;
}

TEST(Remote, WhatThePlacementCannotGiveIsRefusedInOneLine) {
  kv::DeployConfig config = small_deploy(4, 2, 1, 24);
  config.server_workers = 0;
  const Options remote = {{"nessie.placement", "remote"}};
  EXPECT_NE(refusal(config, remote).find("expected server-nodes of at least 1"), std::string::npos);
  EXPECT_NE(refusal(config, {{"nessie.allocation", "chunks"}}).find("expected nessie.placement remote"),
            std::string::npos);
  config.server_nodes = 2;
  EXPECT_EQ(refusal(config, remote), "");
  EXPECT_NE(refusal(config, {}).find("or nessie.placement remote alongside it"), std::string::npos);
  const Options published = {{"nessie.placement", "remote"}, {"nessie.variant", "published"}};
  EXPECT_NE(refusal(config, published).find("expected nessie.variant hardened"), std::string::npos);
  config.server_workers = 1;
  EXPECT_NE(refusal(config, remote).find("expected 0"), std::string::npos);
  const Options chunked = {{"nessie.placement", "remote"}, {"nessie.allocation", "chunks"}};
  EXPECT_EQ(refusal(config, chunked), "");
  config.server_workers = 0;
  EXPECT_NE(refusal(config, chunked).find("expected 1"), std::string::npos);
  // a CPU time of ALLOCs that nobody makes, on memory nodes and on the clients' own
  const std::string unused = "nessie.alloc-cpu: without chunks no client makes an ALLOC";
  EXPECT_NE(refusal(config, {{"nessie.placement", "remote"}, {"nessie.alloc-cpu", "5us"}}).find(unused),
            std::string::npos);
  config.server_nodes = 0;
  EXPECT_EQ(refusal(config, {}), "");
  EXPECT_NE(refusal(config, {{"nessie.alloc-cpu", "5us"}}).find(unused), std::string::npos);
}

}  // namespace
}  // namespace loch::nessie::testing
