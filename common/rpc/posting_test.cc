// Tests that window slots share doorbells and completions, and which requests end in an error together with a
// failed one.
#include "common/rpc/posting.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/coro/scope.h"
#include "common/fabric/memory.h"
#include "tests/support/fabrics.h"

namespace loch::rpc {
namespace {

using fabric::Transport, fabric::Verb;

std::unique_ptr<fabric::Fabric> open(const std::string& name, double rc_error = 0) {
  support::FabricOptions options{.nodes = 2, .seed = 1, .hardware = "connectx3-56g-ib"};
  options.losses.rc_error = rc_error;
  options.is_plain = rc_error == 0;
  return support::make_fabric(name, options);
}

// One worker with many window slots on node 0, and a region on node 1.
struct Bench {
  Bench(const std::string& name, const PostingShape& with, double rc_error = 0)
      : fabric(open(name, rc_error)), shape(with) {
    for (const fabric::NodeId node : {fabric::NodeId{0}, fabric::NodeId{1}}) {
      auto made = fabric->register_region(node, {"memory", 65536, true, true, true, {}});
      LOCH_CHECK(made.has_value(), "{}", made.error().message);
      memory.push_back(*made);
      auto worker = fabric->add_worker({node, fabric::Role::client, 0, -1, "worker"});
      LOCH_CHECK(worker.has_value(), "{}", worker.error().message);
      workers.push_back(*worker);
    }
    const auto met = fabric->exchange(10'000'000'000);
    LOCH_CHECK(met.has_value(), "{}", met.error().message);
    const auto found = fabric->lookup(1, "memory");
    LOCH_CHECK(found.has_value(), "{}", found.error().message);
    remote = *found;
  }
  std::unique_ptr<fabric::Fabric> fabric;
  PostingShape shape;
  std::vector<fabric::Region*> memory;
  std::vector<fabric::Worker*> workers;
  fabric::RemoteRegion remote;
  std::unique_ptr<PostingLists> lists;
  std::vector<std::uint64_t> numbers;
  std::uint64_t failures = 0;
};

fabric::WorkRequest add_one(const Bench& bench) {
  fabric::WorkRequest request = fabric::one_sided(Verb::faa, bench.remote, 64, {}, 8, nullptr);
  request.operand = 1;
  return request;
}

coro::Task<void> add_often(Bench* bench, int times) {
  fabric::Worker& worker = *bench->workers[0];
  for (int i = 0; i < times; ++i) {
    const fabric::Completion done = co_await bench->lists->execute(add_one(*bench));
    if (done.ok()) {
      bench->numbers.push_back(done.result);
      continue;
    }
    ++bench->failures;
    const Nanos deadline = worker.now() + 1'000'000'000;
    const bool is_back = co_await worker.reconnect(1, deadline);
    EXPECT_TRUE(is_back);
  }
}

coro::Task<void> add_from_slots(Bench* bench, int slots, int times) {
  fabric::Worker& worker = *bench->workers[0];
  bench->lists = std::make_unique<PostingLists>(worker, bench->shape);
  coro::Scope scope(worker.run_queue());
  for (int i = 0; i < slots; ++i) scope.spawn(add_often(bench, times));
  co_await scope.join();
}

coro::Task<void> nothing() { co_return; }

class Posting : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Posting, ::testing::Values("sim", "shm"));

TEST_P(Posting, SlotsShareDoorbellsAndCompletions) {
  Bench bench(GetParam(), {.list_most = 8, .signal_every = 8, .lanes = 2});
  bench.fabric->start(*bench.workers[0], add_from_slots(&bench, 16, 100));
  bench.fabric->start(*bench.workers[1], nothing());
  const auto end = bench.fabric->run();
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(*end, fabric::RunEnd::finished);
  // Each fetch-and-add has to return a different old word.
  std::vector<bool> seen(1'600);
  ASSERT_EQ(bench.numbers.size(), 1'600u);
  for (const std::uint64_t number : bench.numbers) {
    ASSERT_LT(number, 1'600u);
    EXPECT_FALSE(seen[number]);
    seen[number] = true;
  }
  EXPECT_EQ(fabric::load_word(bench.memory[1]->at(64)), 1'600u);
  const PostingCounts& counts = bench.lists->counts();
  EXPECT_EQ(counts.requests, 1'600u);
  EXPECT_EQ(counts.lists, 200u);     // eight requests are posted together, and complete together
  EXPECT_EQ(counts.signaled, 200u);  // only the last request of each list is signaled
}

TEST_P(Posting, MoreSlotsThanAQueuePairHolds) {
  Bench bench(GetParam(), {.list_most = 4'096, .signal_every = 4'096, .lanes = 1});
  bench.fabric->start(*bench.workers[0], add_from_slots(&bench, 1'000, 5));
  bench.fabric->start(*bench.workers[1], nothing());
  const auto end = bench.fabric->run();
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(*end, fabric::RunEnd::finished);
  EXPECT_EQ(bench.failures, 0u);
  EXPECT_EQ(fabric::load_word(bench.memory[1]->at(64)), 5'000u);
}

TEST_P(Posting, AFailedRequestTakesThoseBehindItAlong) {
  Bench bench(GetParam(), {.list_most = 8, .signal_every = 4, .lanes = 2}, 0.01);
  bench.fabric->start(*bench.workers[0], add_from_slots(&bench, 16, 200));
  bench.fabric->start(*bench.workers[1], nothing());
  const auto end = bench.fabric->run();
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(*end, fabric::RunEnd::finished);
  EXPECT_EQ(bench.numbers.size() + bench.failures, 3'200u);
  EXPECT_GT(bench.failures, 10u);
  // Fetch-and-adds that completed successfully were executed; those that ended in an error may have been.
  const std::uint64_t added = fabric::load_word(bench.memory[1]->at(64));
  EXPECT_GE(added, bench.numbers.size());
  EXPECT_LE(added, 3'200u);
}

coro::Task<void> send_from_slot(Bench* bench, std::uint32_t slot, int times) {
  for (int i = 1; i <= times; ++i) {
    fabric::store_word_release(bench->memory[0]->at(slot * 8), static_cast<std::uint64_t>(i));
    fabric::WorkRequest write = fabric::one_sided(Verb::write, bench->remote, 4096 + slot * 8,
                                                  {bench->memory[0], slot * 8}, 8, nullptr);
    write.transport = Transport::uc;
    write.is_inline = true;
    co_await bench->lists->send(write);
    const Nanos soon = bench->workers[0]->now() + 10'000;
    co_await bench->workers[0]->sleep_until(soon);
  }
}

coro::Task<void> send_from_slots(Bench* bench, std::uint32_t slots, int times) {
  fabric::Worker& worker = *bench->workers[0];
  bench->lists = std::make_unique<PostingLists>(worker, bench->shape);
  coro::Scope scope(worker.run_queue());
  for (std::uint32_t i = 0; i < slots; ++i) scope.spawn(send_from_slot(bench, i, times));
  co_await scope.join();
}

TEST_P(Posting, WhatIsOnlySentArrivesAndItsPlaceIsUsedAgain) {
  Bench bench(GetParam(), {.list_most = 8, .signal_every = 32, .lanes = 1});
  bench.fabric->start(*bench.workers[0], send_from_slots(&bench, 16, 50));
  bench.fabric->start(*bench.workers[1], nothing());
  const auto end = bench.fabric->run();
  ASSERT_TRUE(end.has_value());
  ASSERT_EQ(*end, fabric::RunEnd::finished);
  for (std::uint32_t slot = 0; slot < 16; ++slot)
    EXPECT_EQ(fabric::load_word(bench.memory[1]->at(4096 + slot * 8)), 50u) << slot;
  EXPECT_EQ(bench.lists->counts().requests, 800u);
  EXPECT_EQ(bench.lists->counts().signaled, 25u);
}

}  // namespace
}  // namespace loch::rpc
