// Tests the step fabric: each verb, messages of each transport, waits for memory words, timers, failures,
// kills and clocks.
#include "common/fabric/step/step.h"

#include <gtest/gtest.h>

#include <string>

#include "common/fabric/memory.h"

namespace loch::fabric::step {
namespace {

struct Pair {
  explicit Pair(StepConfig config = {.nodes = 2}, Elision elision = {}) : fabric(config) {
    for (NodeId node = 0; node < 2; ++node) {
      memory[node] = *fabric.register_region(node, {.name = "memory",
                                                    .bytes = 512,
                                                    .remote_read = true,
                                                    .remote_write = true,
                                                    .remote_atomic = true,
                                                    .elision = elision});
      worker[node] = *fabric.add_worker({.node = node});
      remote[node] = *fabric.lookup(node, "memory");
    }
  }
  void store(NodeId node, std::uint64_t at, std::uint64_t value) {
    store_word_release(memory[node]->at(at), value);
  }
  std::uint64_t load(NodeId node, std::uint64_t at) { return load_word(memory[node]->at(at)); }

  StepFabric fabric;
  Region* memory[2] = {};
  Worker* worker[2] = {};
  RemoteRegion remote[2];
};

coro::Task<void> one(Worker* worker, WorkRequest request, Completion* out) {
  const Completion done = co_await worker->execute(request);
  *out = done;
}

WorkRequest request_to(Pair& pair, Verb verb, std::uint64_t offset) {
  WorkRequest request;
  request.verb = verb;
  request.peer = 1;
  request.remote = pair.remote[1];
  request.remote_offset = offset;
  request.local = {pair.memory[0], 64};
  request.length = 8;
  return request;
}

TEST(StepFabric, EveryOneSidedVerb) {
  Pair pair;
  Completion done;
  pair.store(0, 64, 7);
  pair.fabric.start(*pair.worker[0], one(pair.worker[0], request_to(pair, Verb::write, 0), &done));
  EXPECT_EQ(pair.load(1, 0), 0u);  // a posted request has no effect before it is executed
  EXPECT_EQ(pair.fabric.next(*pair.worker[0])->verb, Verb::write);
  EXPECT_TRUE(pair.fabric.step(*pair.worker[0]));
  EXPECT_EQ(pair.load(1, 0), 7u);
  EXPECT_TRUE(pair.fabric.is_done(*pair.worker[0]));

  WorkRequest cas = request_to(pair, Verb::cas, 0);
  cas.local = {};
  cas.compare = 7;
  cas.operand = 9;
  pair.fabric.start(*pair.worker[0], one(pair.worker[0], cas, &done));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_EQ(done.result, 7u);
  EXPECT_EQ(pair.load(1, 0), 9u);

  WorkRequest faa = request_to(pair, Verb::faa, 0);
  faa.operand = 5;
  pair.fabric.start(*pair.worker[0], one(pair.worker[0], faa, &done));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_EQ(done.result, 9u);
  EXPECT_EQ(pair.load(1, 0), 14u);
  EXPECT_EQ(pair.load(0, 64), 9u);  // the FAA placed the old word in its local buffer

  pair.fabric.start(*pair.worker[0], one(pair.worker[0], request_to(pair, Verb::read, 0), &done));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_EQ(pair.load(0, 64), 14u);
}

TEST(StepFabric, AFailureIsExecutedOrNotAndBreaksTheConnection) {
  for (const bool takes_effect : {false, true}) {
    Pair pair;
    Completion done;
    WorkRequest cas = request_to(pair, Verb::cas, 0);
    cas.operand = 3;
    pair.fabric.start(*pair.worker[0], one(pair.worker[0], cas, &done));
    pair.fabric.fail_next(*pair.worker[0], takes_effect);
    EXPECT_EQ(done.status, WcStatus::retry_exceeded);
    EXPECT_EQ(pair.load(1, 0), takes_effect ? 3u : 0u);
    EXPECT_FALSE(pair.worker[0]->connected(1));
    pair.fabric.start(*pair.worker[0], one(pair.worker[0], cas, &done));
    pair.fabric.finish(*pair.worker[0]);
    EXPECT_EQ(done.status, WcStatus::flushed);
  }
}

coro::Task<void> reconnect(Worker* worker, bool* out) {
  const bool is_back = co_await worker->reconnect(1, worker->now() + 5'000);
  *out = is_back;
}

TEST(StepFabric, AReconnectionHasANewEpochAndTimesOutWhileThePeerIsCutOff) {
  Pair pair;
  bool is_back = true;
  pair.fabric.cut_off(1, true);
  const Nanos before = pair.fabric.now();
  pair.fabric.start(*pair.worker[0], reconnect(pair.worker[0], &is_back));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_FALSE(is_back);
  EXPECT_EQ(pair.fabric.now(), before + 5'000);
  pair.fabric.cut_off(1, false);
  pair.fabric.start(*pair.worker[0], reconnect(pair.worker[0], &is_back));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_TRUE(is_back);
  EXPECT_EQ(pair.worker[0]->epoch(1), 1u);
}

coro::Task<void> send(Worker* worker, WorkRequest request, Completion* out) {
  const Completion done = co_await worker->execute(request);
  *out = done;
}
coro::Task<void> take(Worker* worker, Transport transport, Received* out) {
  const Received got = co_await worker->receive(transport, worker->now() + 1'000'000);
  *out = got;
}

class Messages : public ::testing::TestWithParam<Transport> {};

TEST_P(Messages, ArriveInTheBufferOrAreLostWithoutOne) {
  const Transport transport = GetParam();
  const std::uint32_t head = transport == Transport::ud ? 40 : 0;
  Pair pair;
  WorkRequest message = request_to(pair, Verb::send, 0);
  message.transport = transport;
  message.has_immediate = true;
  message.immediate = 77;
  pair.store(0, 64, 0xABCD);
  Completion done{WcStatus::local_error, 0};
  Received got;
  pair.fabric.start(*pair.worker[0], send(pair.worker[0], message, &done));
  pair.fabric.drain(*pair.worker[0]);
  // An RC message waits for a receive buffer; a message of another transport is executed without one, and
  // lost.
  EXPECT_EQ(pair.fabric.is_executable(*pair.worker[0], 0), transport != Transport::rc);
  if (transport != Transport::rc) {
    EXPECT_TRUE(pair.fabric.step(*pair.worker[0]));
    EXPECT_EQ(done.status, WcStatus::success);
    pair.fabric.start(*pair.worker[0], send(pair.worker[0], message, &done));
  }
  pair.worker[1]->post_recv(transport, {pair.memory[1], 128}, 64, 9);
  pair.fabric.start(*pair.worker[1], take(pair.worker[1], transport, &got));
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_FALSE(pair.fabric.has_news(*pair.worker[1]));
  EXPECT_TRUE(pair.fabric.step(*pair.worker[0]));
  EXPECT_TRUE(pair.fabric.has_news(*pair.worker[1]));
  pair.fabric.take_news(*pair.worker[1]);
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_TRUE(pair.fabric.is_done(*pair.worker[1]));
  EXPECT_EQ(got.length, 8u);
  EXPECT_EQ(got.immediate, 77u);
  EXPECT_EQ(got.user, 9u);
  EXPECT_EQ(got.from, 0u);
  EXPECT_EQ(pair.load(1, 128 + head), 0xABCDu);
}
INSTANTIATE_TEST_SUITE_P(All, Messages, ::testing::Values(Transport::rc, Transport::uc, Transport::ud));

TEST(StepFabric, AReceiveEndsAtItsDeadline) {
  Pair pair;
  Received got;
  pair.fabric.start(*pair.worker[1], take(pair.worker[1], Transport::ud, &got));
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_EQ(pair.fabric.next_alarm(*pair.worker[1], StepFabric::Alarms::timers).at, forever);
  EXPECT_TRUE(pair.fabric.next_alarm(*pair.worker[1], StepFabric::Alarms::all).is_deadline);
  pair.fabric.ring(*pair.worker[1], StepFabric::Alarms::all);
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_EQ(got.outcome, Received::Outcome::timed_out);
}

coro::Task<void> watch_set(Worker* worker, WatchSet set, WatchAny* out) {
  const WatchAny any = co_await worker->watch_any(set, 2);
  *out = any;
}

TEST(StepFabric, AWatchedSetIsWokenByAPeersWrite) {
  Pair pair;
  WatchAny any;
  const WatchSet set{.region = pair.memory[1],
                     .offset = 0,
                     .stride = 16,
                     .count = 4,
                     .ready = [](void*, std::uint32_t, std::uint64_t word) { return word != 0; },
                     .context = nullptr};
  pair.fabric.start(*pair.worker[1], watch_set(pair.worker[1], set, &any));
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_FALSE(pair.fabric.has_news(*pair.worker[1]));
  Completion done;
  pair.store(0, 64, 5);
  pair.fabric.start(*pair.worker[0], one(pair.worker[0], request_to(pair, Verb::write, 16), &done));
  pair.fabric.finish(*pair.worker[0]);
  ASSERT_TRUE(pair.fabric.has_news(*pair.worker[1]));
  pair.fabric.take_news(*pair.worker[1]);
  pair.fabric.drain(*pair.worker[1]);
  EXPECT_TRUE(pair.fabric.is_done(*pair.worker[1]));
  EXPECT_EQ(any.index, 1u);
}

coro::Task<void> sleep_until(Worker* worker, Nanos at) { co_await worker->sleep_until(at); }

TEST(StepFabric, OwnTimeMovesTheWorkersReadingAlone) {
  Pair pair({.nodes = 2, .has_own_time = true});
  const Nanos before = pair.worker[1]->now();
  pair.fabric.start(*pair.worker[0], sleep_until(pair.worker[0], before + 50'000));
  pair.fabric.finish(*pair.worker[0]);
  EXPECT_EQ(pair.worker[0]->now(), before + 50'000);
  EXPECT_EQ(pair.worker[1]->now(), before);
  pair.fabric.advance(1'000);
  EXPECT_EQ(pair.worker[1]->now(), before + 1'000);
  pair.fabric.skew(1, 30);
  EXPECT_EQ(pair.worker[1]->node_clock(), before + 1'030);
}

coro::Task<void> write_both(Worker* worker, WorkRequest first, WorkRequest second) {
  first.is_signaled = false;
  std::array<WorkRequest, 2> chain = {first, second};
  const WcStatus status = co_await worker->post_and_wait(chain);
  LOCH_CHECK(status == WcStatus::success, "{}", name(status));
}

// Requests of one connection keep their order; those of two connections are not ordered.
TEST(StepFabric, ConnectionsAreExecutedInAnyOrder) {
  Pair pair;
  WorkRequest own = request_to(pair, Verb::write, 0);
  own.peer = 0;
  own.remote = pair.remote[0];
  pair.fabric.start(*pair.worker[0], write_both(pair.worker[0], request_to(pair, Verb::write, 0), own));
  pair.fabric.drain(*pair.worker[0]);
  ASSERT_EQ(pair.fabric.posted(*pair.worker[0]), 2u);
  EXPECT_TRUE(pair.fabric.is_executable(*pair.worker[0], 1));
  pair.fabric.start(*pair.worker[0], write_both(pair.worker[0], own, own));
  pair.fabric.drain(*pair.worker[0]);
  EXPECT_FALSE(pair.fabric.is_executable(*pair.worker[0], 1));
}

TEST(StepFabric, AKilledWorkerNeverGoesOnAndItsFramesAreFreed) {
  const std::uint64_t before = coro::FramePool::local().live();
  {
    Pair pair;
    Completion done{WcStatus::local_error, 0};
    pair.fabric.start(*pair.worker[0], one(pair.worker[0], request_to(pair, Verb::write, 0), &done));
    pair.fabric.drain(*pair.worker[0]);
    pair.fabric.kill(*pair.worker[0]);
    EXPECT_FALSE(pair.fabric.step(*pair.worker[0]));
    EXPECT_EQ(pair.fabric.posted(*pair.worker[0]), 0u);
    EXPECT_TRUE(pair.fabric.is_done(*pair.worker[0]));
    EXPECT_EQ(done.status, WcStatus::local_error);
  }
  EXPECT_EQ(coro::FramePool::local().live(), before);
}

// ---- torn requests, which are executed in two halves

// A request for the 130 bytes of the peer's memory from offset 40 on: 24, 64 and 42 bytes of three cache
// lines.
WorkRequest long_request(Pair& pair, Verb verb) {
  WorkRequest request = request_to(pair, verb, 40);
  request.local.offset = 256;
  request.length = 130;
  return request;
}
void fill(Pair& pair, NodeId node, std::uint64_t at, std::uint32_t bytes, std::uint8_t with) {
  for (std::uint32_t i = 0; i < bytes; ++i) *pair.memory[node]->at(at + i) = std::byte{with};
}
// Describes `bytes` bytes of a node's memory, from offset `at` on, as runs of equal bytes: "1 x24, 2 x106".
std::string runs(Pair& pair, NodeId node, std::uint64_t at, std::uint32_t bytes) {
  std::string text;
  for (std::uint32_t i = 0; i < bytes;) {
    const std::byte value = *pair.memory[node]->at(at + i);
    const std::uint32_t begin = i;
    while (i < bytes && *pair.memory[node]->at(at + i) == value) ++i;
    text += (begin == 0 ? "" : ", ") + std::to_string(std::to_integer<int>(value)) + " x" +
            std::to_string(i - begin);
  }
  return text;
}

TEST(StepFabric, PiecesAreLines) {
  Pair pair;
  Completion done;
  StepFabric& fabric = pair.fabric;
  Worker& worker = *pair.worker[0];
  fabric.start(worker, one(&worker, long_request(pair, Verb::read), &done));
  ASSERT_NE(fabric.next(worker), nullptr);
  EXPECT_EQ(fabric.pieces(worker, 0, false), 3u);
  // in the local buffer, the READ's 130 bytes lie in cache lines as 64, 64 and 2 bytes
  EXPECT_EQ(fabric.pieces(worker, 0, true), 3u);
  EXPECT_EQ(fabric.tear_at(worker, 0, false, false, 1).lower_bytes, 24u);
  EXPECT_EQ(fabric.tear_at(worker, 0, false, false, 2).lower_bytes, 88u);
  EXPECT_EQ(fabric.tear_at(worker, 0, true, false, 2).lower_bytes, 128u);
  fabric.finish(worker);
  fabric.start(worker, one(&worker, request_to(pair, Verb::cas, 0), &done));
  ASSERT_NE(fabric.next(worker), nullptr);
  EXPECT_EQ(fabric.pieces(worker, 0, false), 1u);
  fabric.finish(worker);
  fabric.start(worker, one(&worker, request_to(pair, Verb::write, 0), &done));
  ASSERT_NE(fabric.next(worker), nullptr);
  EXPECT_EQ(fabric.pieces(worker, 0, false), 1u);
}

TEST(StepFabric, AWriteIsPlacedInHalves) {
  for (const bool is_upper_first : {false, true}) {
    Pair pair;
    Completion done{.status = WcStatus::local_error};
    StepFabric& fabric = pair.fabric;
    Worker& worker = *pair.worker[0];
    fill(pair, 0, 256, 130, 1);
    fabric.start(worker, one(&worker, long_request(pair, Verb::write), &done));
    ASSERT_NE(fabric.next(worker), nullptr);
    fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, false, is_upper_first, 1));
    EXPECT_EQ(runs(pair, 1, 40, 130), is_upper_first ? "0 x24, 1 x106" : "1 x24, 0 x106");
    EXPECT_EQ(fabric.posted(worker), 1u);
    // a request of which one half was executed cannot be torn again
    EXPECT_EQ(fabric.pieces(worker, 0, false), 1u);
    // when its first half was executed, the WRITE read its whole payload: these stores do not change what it
    // places
    fill(pair, 0, 256, 130, 2);
    fabric.execute(worker, 0, Fate::executed);
    fabric.drain(worker);
    EXPECT_EQ(runs(pair, 1, 40, 130), "1 x130");
    EXPECT_TRUE(done.ok());
  }
}

// The region stores the head and the tail of an entry of 128 bytes, and not the 80 bytes between: one half of
// the torn request moves the head, the other the tail.
TEST(StepFabric, ATornRequestMovesTheBytesThatAreStored) {
  for (const Verb verb : {Verb::read, Verb::write}) {
    Pair pair({.nodes = 2}, {.entry_bytes = 128, .keep_head = 40, .keep_tail = 8});
    const NodeId from = verb == Verb::read ? 1 : 0, to = 1 - from;
    Completion done{.status = WcStatus::local_error};
    StepFabric& fabric = pair.fabric;
    Worker& worker = *pair.worker[0];
    WorkRequest request = request_to(pair, verb, 128);
    request.local.offset = 128;
    request.length = 128;
    pair.store(from, 128 + 32, 7);
    pair.store(from, 128 + 120, 8);
    fabric.start(worker, one(&worker, request, &done));
    ASSERT_NE(fabric.next(worker), nullptr);
    fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, verb == Verb::read, true, 1));
    EXPECT_EQ(pair.load(to, 128 + 32), 0u);
    EXPECT_EQ(pair.load(to, 128 + 120), 8u);
    fabric.execute(worker, 0, Fate::executed);
    fabric.drain(worker);
    EXPECT_EQ(pair.load(to, 128 + 32), 7u);
    EXPECT_TRUE(done.ok());
  }
}

// The READ fetches its cache lines from the peer at two instants and places all of them in the local buffer
// at one instant.
TEST(StepFabric, AReadIsFetchedInHalves) {
  for (const bool is_upper_first : {false, true}) {
    Pair pair;
    Completion done;
    StepFabric& fabric = pair.fabric;
    Worker& worker = *pair.worker[0];
    fill(pair, 1, 40, 130, 1);
    fabric.start(worker, one(&worker, long_request(pair, Verb::read), &done));
    ASSERT_NE(fabric.next(worker), nullptr);
    fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, false, is_upper_first, 2));
    EXPECT_EQ(runs(pair, 0, 256, 130), "0 x130");
    fill(pair, 1, 40, 130, 2);
    fabric.execute(worker, 0, Fate::executed);
    EXPECT_EQ(runs(pair, 0, 256, 130), is_upper_first ? "2 x88, 1 x42" : "1 x88, 2 x42");
  }
}

// The READ fetches all its cache lines from the peer at one instant and places them in the local buffer at
// two instants.
TEST(StepFabric, AReadLandsInHalves) {
  for (const bool is_upper_first : {false, true}) {
    Pair pair;
    Completion done;
    StepFabric& fabric = pair.fabric;
    Worker& worker = *pair.worker[0];
    fill(pair, 1, 40, 130, 1);
    fabric.start(worker, one(&worker, long_request(pair, Verb::read), &done));
    ASSERT_NE(fabric.next(worker), nullptr);
    fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, true, is_upper_first, 1));
    EXPECT_EQ(runs(pair, 0, 256, 130), is_upper_first ? "0 x64, 1 x66" : "1 x64, 0 x66");
    fill(pair, 1, 40, 130, 2);
    fabric.execute(worker, 0, Fate::executed);
    EXPECT_EQ(runs(pair, 0, 256, 130), "1 x130");
  }
}

TEST(StepFabric, ATornWriteThatFailsIsHalfThereOrWhole) {
  for (const Fate fate : {Fate::not_executed, Fate::unheard}) {
    Pair pair;
    Completion done;
    StepFabric& fabric = pair.fabric;
    Worker& worker = *pair.worker[0];
    fill(pair, 0, 256, 130, 1);
    fabric.start(worker, one(&worker, long_request(pair, Verb::write), &done));
    ASSERT_NE(fabric.next(worker), nullptr);
    fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, false, false, 1));
    fabric.execute(worker, 0, fate);
    fabric.drain(worker);
    EXPECT_EQ(runs(pair, 1, 40, 130), fate == Fate::unheard ? "1 x130" : "1 x24, 0 x106");
    EXPECT_EQ(done.status, WcStatus::retry_exceeded);
  }
}

// A request cannot be executed while an earlier request on its connection is torn and only half executed.
TEST(StepFabric, ATornRequestIsNotOvertaken) {
  Pair pair;
  StepFabric& fabric = pair.fabric;
  Worker& worker = *pair.worker[0];
  worker.post_detached(long_request(pair, Verb::write));
  worker.post_detached(request_to(pair, Verb::write, 400));
  fabric.execute_half(worker, 0, fabric.tear_at(worker, 0, false, true, 1));
  EXPECT_TRUE(fabric.is_executable(worker, 0));
  EXPECT_FALSE(fabric.is_executable(worker, 1));
  fabric.execute(worker, 0, Fate::executed);
  EXPECT_TRUE(fabric.is_executable(worker, 0));
}

}  // namespace
}  // namespace loch::fabric::step
