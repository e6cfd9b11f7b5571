// Conformance tests of all fabrics: refused and failed requests, flushing, reconnecting (rules 4 to 6 of
// fabric.h), and refusals by the control path.
#include <gmock/gmock.h>

#include <array>

#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

WorkRequest to_node_1(Cluster* cluster, Verb verb, std::uint64_t offset, std::uint32_t length) {
  return one_sided(verb, cluster->remote[1], offset, cluster->at(0, 0), length, nullptr);
}

struct Refusal {
  const char* what;
  WorkRequest request;
};

std::vector<Refusal> refusals(Cluster* cluster) {
  std::vector<Refusal> all;
  all.push_back({"bad rkey", to_node_1(cluster, Verb::write, 0, 8)});
  all.back().request.remote.rkey ^= 0x5a5a;
  all.push_back({"no such region", to_node_1(cluster, Verb::read, 0, 8)});
  all.back().request.remote.id = 99;
  all.push_back({"READ beyond the end", to_node_1(cluster, Verb::read, memory_bytes - 4, 8)});
  all.push_back({"WRITE beyond the end", to_node_1(cluster, Verb::write, memory_bytes, 1)});
  all.push_back({"offset near 2^64", to_node_1(cluster, Verb::read, ~0ull - 3, 8)});
  all.push_back({"FAA beyond the end", to_node_1(cluster, Verb::faa, memory_bytes, 8)});
  all.push_back({"WRITE without the right", to_node_1(cluster, Verb::write, 0, 8)});
  all.back().request.remote = cluster->readable[1];
  all.push_back({"CAS without the right", to_node_1(cluster, Verb::cas, 0, 8)});
  all.back().request.remote = cluster->readable[1];
  all.push_back({"misaligned FAA", to_node_1(cluster, Verb::faa, 4, 8)});
  return all;
}

coro::Task<void> ask_for_refusals(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->set_word(0, 0, 99);
  const std::vector<Refusal> all = refusals(cluster);
  for (const Refusal& refusal : all) {
    const std::uint32_t epoch = worker.epoch(1);
    EXPECT_TRUE(worker.is_connected_since(1, epoch)) << refusal.what;
    EXPECT_FALSE(worker.is_connected_since(1, epoch + 1)) << refusal.what;
    const Completion refused = co_await worker.execute(refusal.request);
    EXPECT_EQ(refused.status, WcStatus::remote_access) << refusal.what;
    EXPECT_FALSE(worker.connected(1)) << refusal.what;
    EXPECT_FALSE(worker.is_connected_since(1, epoch)) << refusal.what;
    const LocalSlice to = cluster->at(0, 128);
    const Completion behind = co_await worker.read(cluster->remote[1], 0, to, 8);
    EXPECT_EQ(behind.status, WcStatus::flushed) << refusal.what;
    const Nanos deadline = worker.now() + 5 * second;
    const bool connected = co_await worker.reconnect(1, deadline);
    EXPECT_TRUE(connected) << refusal.what;
    EXPECT_TRUE(worker.connected(1));
    EXPECT_EQ(worker.epoch(1), epoch + 1);
    EXPECT_FALSE(worker.is_connected_since(1, epoch)) << refusal.what;
    EXPECT_TRUE(worker.is_connected_since(1, epoch + 1)) << refusal.what;
    const Completion again = co_await worker.read(cluster->remote[1], 0, to, 8);
    EXPECT_TRUE(again.ok()) << refusal.what;
  }
}

TEST_P(FabricTest, RefusedRequestsDoNothingAndAreFixed) {
  Cluster cluster(GetParam());
  cluster.start(0, ask_for_refusals(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 0), 0u);
  EXPECT_EQ(cluster.word(1, 8), 0u);
  EXPECT_EQ(cluster.word(1, memory_bytes - 8), 0u);
}

coro::Task<void> failing_chain(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->set_word(0, 0, 7);
  std::array<WorkRequest, 4> chain;
  chain[0] = to_node_1(cluster, Verb::write, 0, 8);
  chain[1] = to_node_1(cluster, Verb::write, memory_bytes, 8);  // exceeds the region, so it is refused
  chain[2] = to_node_1(cluster, Verb::write, 64, 8);
  chain[3] = to_node_1(cluster, Verb::faa, 128, 8);
  chain[3].local = {};
  chain[3].operand = 1;
  for (WorkRequest& request : chain) request.is_signaled = &request == &chain.back();
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::remote_access);
  EXPECT_EQ(chain[0].status, WcStatus::success);
  EXPECT_EQ(chain[1].status, WcStatus::remote_access);
  EXPECT_EQ(chain[2].status, WcStatus::flushed);
  EXPECT_EQ(chain[3].status, WcStatus::flushed);
  // The connection to node 2 still works, although that to node 1 has failed.
  const LocalSlice from = cluster->at(0, 0);
  const Completion other = co_await worker.write(cluster->remote[2], 0, from, 8);
  EXPECT_TRUE(other.ok());
}

TEST_P(FabricTest, AFailureFlushesWhatIsBehindIt) {
  Cluster cluster(GetParam(), 3);
  cluster.start(0, failing_chain(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 0), 7u);
  EXPECT_EQ(cluster.word(1, 64), 0u);
  EXPECT_EQ(cluster.word(1, 128), 0u);
  EXPECT_EQ(cluster.word(2, 0), 7u);
}

coro::Task<void> watch_peer(Cluster* cluster, WatchOutcome* outcome) {
  const WatchWord never{cluster->memory[0], 4096, ~0ull, 5, true, NodeId{1}};
  const WatchOutcome ended = co_await cluster->clients[0]->watch(never);
  *outcome = ended;
}

coro::Task<void> fail_alongside_a_watch(Cluster* cluster, WatchOutcome* outcome) {
  Worker& worker = *cluster->clients[0];
  coro::Scope scope(worker.run_queue());
  scope.spawn(watch_peer(cluster, outcome));
  const Nanos soon = worker.now() + 20'000;
  co_await worker.spin_until(soon);
  const WorkRequest bad = to_node_1(cluster, Verb::write, memory_bytes, 8);
  worker.post_detached(bad);
  co_await scope.join();
}

TEST_P(FabricTest, AWatchEndsWhenItsConnectionFails) {
  Cluster cluster(GetParam());
  WatchOutcome outcome = WatchOutcome::ready;
  cluster.start(0, fail_alongside_a_watch(&cluster, &outcome));
  cluster.run();
  EXPECT_EQ(outcome, WatchOutcome::link_down);
}

coro::Task<void> unreliable_refusal(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  WorkRequest bad = to_node_1(cluster, Verb::write, 0, 8);
  bad.transport = Transport::uc;
  bad.remote.rkey ^= 1;
  const Completion done = co_await worker.execute(bad);
  EXPECT_TRUE(done.ok());  // a refused UC request completes without an error
  EXPECT_TRUE(worker.connected(1));
}

TEST_P(FabricTest, ARefusedUnreliableWriteIsSilent) {
  Cluster cluster(GetParam());
  cluster.set_word(0, 0, 3);
  cluster.start(0, unreliable_refusal(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 0), 0u);
}

coro::Task<void> bad_local(Cluster* cluster, LocalSlice slice) {
  Worker& worker = *cluster->clients[0];
  const Completion refused = co_await worker.read(cluster->remote[1], 0, slice, 8);
  EXPECT_EQ(refused.status, WcStatus::local_error);
}

TEST_P(FabricTest, ABadLocalBufferIsALocalError) {
  struct Bad {
    NodeId node;
    std::uint64_t offset;
  };
  // Refused buffers: one that ends beyond the region's end, one whose end wraps around 2^64 to 4, and one in
  // another node's memory.
  for (const Bad& bad : {Bad{0, memory_bytes - 4}, Bad{0, ~std::uint64_t{0} - 3}, Bad{1, 0}}) {
    Cluster cluster(GetParam());
    cluster.set_word(1, 0, 5);
    cluster.start(0, bad_local(&cluster, {cluster.memory[bad.node], bad.offset}));
    cluster.run();
    EXPECT_EQ(cluster.word(0, 0), 0u);
  }
}

coro::Task<void> unknown_region(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  RemoteRegion unknown = cluster->remote[1];
  unknown.id += 100;
  const LocalSlice here = cluster->at(0, 0);
  const Completion refused = co_await worker.read(unknown, 0, here, 8);
  EXPECT_EQ(refused.status, WcStatus::remote_access);
  EXPECT_FALSE(worker.connected(1));
}

TEST_P(FabricTest, ARegionThatThePeerDoesNotHaveIsRefused) {
  Cluster cluster(GetParam());
  cluster.set_word(1, 0, 5);
  cluster.start(0, unknown_region(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(0, 0), 0u);
}

TEST_P(FabricTest, TheControlPathRefusesByName) {
  using testing::HasSubstr;
  auto fabric = GetParam().make(2, 1).value();
  EXPECT_EQ(fabric->nodes(), 2u);
  EXPECT_EQ(fabric->rank(), 0u);
  EXPECT_TRUE(fabric->is_local(0));
  EXPECT_TRUE(fabric->is_local(1));
  ASSERT_TRUE(fabric->register_region(0, {"index", 4096, true, false, true, {}}).has_value());
  const auto twice = fabric->register_region(0, {"index", 4096, true, false, true, {}});
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, HasSubstr("index"));
  ASSERT_TRUE(fabric->register_region(1, {"index", 64, true, false, true, {}}).has_value());
  ASSERT_TRUE(fabric->add_worker({0, Role::client, 0, -1, "client"}).has_value());
  ASSERT_TRUE(fabric->exchange(second).has_value());
  const auto found = fabric->lookup(1, "index");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->node, 1);
  EXPECT_EQ(found->bytes, 64u);
  const auto missing = fabric->lookup(1, "data");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("data"));
  ASSERT_NE(fabric->direct(1, "index"), nullptr);
  EXPECT_EQ(fabric->direct(1, "index")->bytes(), 64u);
  EXPECT_EQ(fabric->direct(1, "data"), nullptr);
  EXPECT_TRUE(fabric->barrier("start", second).has_value());
  const auto gathered = fabric->gather("mine", second);
  ASSERT_TRUE(gathered.has_value());
  EXPECT_EQ(*gathered, std::vector<std::string>{"mine"});
}

TEST_P(FabricTest, RegionsStartZeroed) {
  Cluster cluster(GetParam(), 1);
  for (std::uint64_t at = 0; at < memory_bytes; at += 8) ASSERT_EQ(cluster.word(0, at), 0u);
}

TEST_P(FabricTest, CapabilitiesAreWhole) {
  auto fabric = GetParam().make(1, 1).value();
  const Capabilities& can = fabric->capabilities();
  EXPECT_FALSE(can.fabric.empty());
  EXPECT_FALSE(can.device.empty());
  EXPECT_GE(can.untorn_bytes, 8u);
  EXPECT_GE(can.max_rd_atomic, 1u);
  EXPECT_GE(can.send_queue_depth, 16u);
  EXPECT_GE(can.recv_queue_depth, 16u);
  Requirements needs;
  needs.rc = needs.uc = needs.ud = true;
  needs.atomic_scope = AtomicScope::nic;
  EXPECT_TRUE(check(needs, can).has_value());
  needs.max_inline_bytes = 1 << 20;
  EXPECT_FALSE(check(needs, can).has_value());
}

}  // namespace
}  // namespace loch::fabric
