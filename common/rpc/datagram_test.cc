// Tests datagrams on sim and shm: counts, losses, and which coroutine waits and which receives.
#include "common/rpc/datagram.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "common/coro/scope.h"
#include "common/fabric/memory.h"
#include "tests/support/fabrics.h"

namespace loch::rpc {
namespace {

using fabric::Fabric;
using fabric::Region;
using fabric::Role;
using fabric::Worker;

std::unique_ptr<Fabric> open(const std::string& name, double loss = 0) {
  support::FabricOptions options{.nodes = 2, .seed = 1, .hardware = "connectx3-56g-ib", .is_plain = true};
  options.faults.ud_loss = loss;
  return support::make_fabric(name, options);
}

constexpr std::uint32_t slots = 4, message_bytes = 200;

// A sender on node 0, and on node 1 a client worker with four slots. A message contains the number of the
// slot that it is for, and its own number.
struct Pair final : DatagramReader {
  explicit Pair(const std::string& name, const DatagramShape& of, double loss = 0)
      : fabric(open(name, loss)), shape(of), is_lossy(loss > 0) {
    shape.message_bytes = message_bytes;
    out = fabric->register_region(0, {.name = "out", .bytes = shape.bytes(), .elision = {}}).value();
    in = fabric->register_region(1, {.name = "in", .bytes = desk_shape.bytes(), .elision = {}}).value();
    server = fabric->add_worker({0, Role::server, 0, -1, "server"}).value();
    client = fabric->add_worker({1, Role::client, 0, -1, "client"}).value();
    EXPECT_TRUE(fabric->exchange(1'000'000'000));
  }
  std::optional<std::uint32_t> read(const fabric::Received& message, const std::byte* payload) override {
    std::uint32_t slot = 0, number = 0;
    fabric::copy_from_shared(&slot, payload, 4);
    fabric::copy_from_shared(&number, payload + 4, 4);
    EXPECT_EQ(message.length, 8 + number % 150);
    EXPECT_EQ(message.from, 0);
    ++arrived;
    latest[slot] = number;
    read_at[slot] = client->now();
    return slot;
  }
  static constexpr ReplyDesk::Shape desk_shape{
      .payload_bytes = message_bytes, .buffers = 16, .waiters = slots, .slice = 100'000};

  std::unique_ptr<Fabric> fabric;
  DatagramShape shape;
  Region *out = nullptr, *in = nullptr;
  Worker *server = nullptr, *client = nullptr;
  std::unique_ptr<DatagramSender> sender;
  std::unique_ptr<ReplyDesk> desk;
  bool is_lossy = false;
  std::atomic<std::uint32_t> arrived = 0;
  std::uint32_t latest[slots] = {};
  // for each slot, when its answer was read; and the longest time from the reading of an answer until its
  // slot continued
  Nanos read_at[slots] = {}, longest = 0;
  std::atomic<bool> is_listening = false;
  std::uint32_t answered[slots] = {}, timed_out = 0;
};

coro::Task<void> send_one(Pair* pair, std::uint32_t slot, std::uint32_t number) {
  if (!pair->sender->has_room()) co_await pair->sender->room();
  std::byte* out = pair->sender->buffer();
  fabric::copy_to_shared(out, &slot, 4);
  fabric::copy_to_shared(out + 4, &number, 4);
  pair->sender->send({1, 0}, 8 + number % 150);
}

coro::Task<void> flood(Pair* pair, std::uint32_t count) {
  pair->sender = std::make_unique<DatagramSender>(*pair->server, pair->shape, *pair->out, 0);
  while (!pair->is_listening) co_await pair->server->sleep_until(pair->server->now() + 20'000);
  for (std::uint32_t i = 0; i < count; ++i) {
    co_await send_one(pair, i % slots, i);
    // A datagram that finds no posted buffer is lost. The sender is therefore slow and, unless losses are
    // injected, keeps at most 12 messages unread.
    if (i % 4 == 3) co_await pair->server->sleep_until(pair->server->now() + 20'000);
    while (!pair->is_lossy && i >= 12 + pair->arrived)
      co_await pair->server->sleep_until(pair->server->now() + 5'000);
  }
  pair->sender->flush();
  while (!pair->server->stopping()) co_await pair->server->sleep_until(pair->server->now() + 50'000);
}

coro::Task<void> listen(Pair* pair, std::uint32_t slot, std::uint32_t until, Nanos patience) {
  while (pair->latest[slot] < until) {
    pair->desk->expect(slot);
    const Nanos deadline = pair->client->now() + patience;
    const ReplyDesk::Outcome outcome = co_await pair->desk->wait(slot, deadline);
    if (outcome == ReplyDesk::Outcome::timed_out) {
      ++pair->timed_out;
      co_return;
    }
    ++pair->answered[slot];
    pair->longest = std::max(pair->longest, pair->client->now() - pair->read_at[slot]);
  }
}

coro::Task<void> listen_all(Pair* pair, std::uint32_t until, Nanos patience) {
  pair->desk = std::make_unique<ReplyDesk>(*pair->client, Pair::desk_shape, *pair->in, 0, *pair);
  pair->is_listening = true;
  coro::Scope scope(pair->client->run_queue());
  for (std::uint32_t slot = 0; slot < slots; ++slot) scope.spawn(listen(pair, slot, until, patience));
  co_await scope.join();
}

class Datagrams : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Datagrams, ::testing::Values("sim", "shm"));

TEST_P(Datagrams, ArriveInlineOrNotOverLanesAndLists) {
  for (const std::uint8_t lanes : {1, 3}) {
    for (const std::uint32_t list : {1U, 7U}) {
      Pair pair(GetParam(), {.list_most = list, .lanes = lanes, .inline_below = 100});
      pair.fabric->start(*pair.server, flood(&pair, 400));
      pair.fabric->start(*pair.client, listen_all(&pair, 396, 2'000'000'000));
      ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
      EXPECT_EQ(pair.arrived, 400u);
      EXPECT_EQ(pair.timed_out, 0u);
      const DatagramCounts& counts = pair.sender->counts();
      EXPECT_EQ(counts.sent, 400u);
      EXPECT_EQ(counts.failed, 0u);
      EXPECT_EQ(counts.lists, (400 + list - 1) / list);
      std::uint32_t small = 0;
      for (std::uint32_t i = 0; i < 400; ++i) small += 8 + i % 150 < 100 ? 1 : 0;
      EXPECT_EQ(counts.inlined, small);
      const std::uint32_t every = pair.sender->shape().signal_every;
      EXPECT_EQ(every, std::min(64u, 128u / lanes / 2));
      EXPECT_LE(counts.signaled, 400 / every);
      EXPECT_GE(counts.signaled + lanes, 400 / every);
    }
  }
}

// Where the fabric has several UD queue pairs for a worker, the sender's lanes are different queue pairs,
// each with its own send queue; otherwise all lanes share one send queue.
TEST_P(Datagrams, LanesHaveTheSendQueuesOfTheirQueuePairs) {
  Pair pair(GetParam(), {.signal_every = 64, .lanes = 3, .queue_depth = 3 * 128});
  const fabric::Capabilities& can = pair.fabric->capabilities();
  ASSERT_EQ(can.send_queue_depth, 128u);
  pair.fabric->start(*pair.server, flood(&pair, 400));
  pair.fabric->start(*pair.client, listen_all(&pair, 396, 2'000'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_EQ(pair.arrived, 400u);
  const std::uint32_t lane_depth = can.datagram_queue_pairs >= 3 ? 128 : 128 / 3;
  EXPECT_EQ(pair.sender->shape().signal_every, lane_depth / 2);
  if (GetParam() == "sim") EXPECT_EQ(pair.sender->shape().signal_every, 64u);
}

// `inline_below` is limited to what the device can inline; the NIC fetches larger payloads by DMA.
TEST_P(Datagrams, InliningStopsWhereTheDeviceDoes) {
  Pair pair(GetParam(), {.inline_below = 100'000});
  pair.fabric->start(*pair.server, flood(&pair, 40));
  pair.fabric->start(*pair.client, listen_all(&pair, 36, 2'000'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_EQ(pair.sender->shape().inline_below, pair.fabric->capabilities().max_inline_bytes + 1);
  EXPECT_EQ(pair.sender->counts().failed, 0u);
}

// Every slot gets its own messages, whichever slot's coroutine receives them. A slot without a message gives
// up at its deadline.
TEST_P(Datagrams, TheOneWhoReceivesServesTheOthers) {
  Pair pair(GetParam(), {});
  pair.fabric->start(*pair.server, flood(&pair, 40));
  pair.fabric->start(*pair.client, listen_all(&pair, 1'000'000, 300'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_EQ(pair.arrived, 40u);
  EXPECT_EQ(pair.timed_out, slots);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    EXPECT_GT(pair.answered[slot], 0u);
    EXPECT_LE(pair.answered[slot], 10u);
  }
}

// Sends answers to one of the client's window slots only, whose coroutine is not the one that receives. The
// slot's coroutine has to continue as soon as its answer was read, not when the receiving coroutine next
// checks its deadline.
coro::Task<void> answer_the_last_slot(Pair* pair, std::uint32_t count) {
  pair->sender = std::make_unique<DatagramSender>(*pair->server, pair->shape, *pair->out, 0);
  while (!pair->is_listening) co_await pair->server->sleep_until(pair->server->now() + 20'000);
  for (std::uint32_t number = 1; number <= count; ++number) {
    co_await pair->server->sleep_until(pair->server->now() + 30'000);
    co_await send_one(pair, slots - 1, number);
    pair->sender->flush();
  }
  while (!pair->server->stopping()) co_await pair->server->sleep_until(pair->server->now() + 50'000);
}

TEST(DatagramsOnSim, AnAnswerEndsTheWaitOfItsSlotAtOnce) {
  Pair pair("sim", {});
  pair.fabric->start(*pair.server, answer_the_last_slot(&pair, 10));
  pair.fabric->start(*pair.client, listen_all(&pair, 10, 2'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_EQ(pair.timed_out, slots - 1);
  EXPECT_EQ(pair.answered[slots - 1], 10u);
  EXPECT_LT(pair.longest, 5'000);
}

// Sends more messages than the send queue has entries. A completion frees the entries of the SENDs up to the
// signaled one and no others, so that the send queue never overflows.
coro::Task<void> send_without_a_pause(Pair* pair, std::uint32_t count) {
  pair->sender = std::make_unique<DatagramSender>(*pair->server, pair->shape, *pair->out, 0);
  while (!pair->is_listening) co_await pair->server->sleep_until(pair->server->now() + 20'000);
  for (std::uint32_t i = 0; i < count; ++i) co_await send_one(pair, i % slots, i);
  pair->sender->flush();
  while (!pair->server->stopping()) co_await pair->server->sleep_until(pair->server->now() + 50'000);
}

TEST(DatagramsOnSim, ACompletionRetiresWhatWasPostedBeforeItAlone) {
  Pair pair("sim", {.signal_every = 64, .queue_depth = 128});
  ASSERT_EQ(pair.fabric->capabilities().send_queue_depth, 128u);
  pair.fabric->start(*pair.server, send_without_a_pause(&pair, 2'000));
  pair.fabric->start(*pair.client, listen_all(&pair, 1'000'000, 5'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_GT(pair.arrived, 50u);
  EXPECT_EQ(pair.sender->counts().failed, 0u);
}

TEST(DatagramsOnSim, LostOnesAreTimedOut) {
  Pair pair("sim", {}, 0.3);
  pair.fabric->start(*pair.server, flood(&pair, 400));
  pair.fabric->start(*pair.client, listen_all(&pair, 1'000'000, 5'000'000));
  ASSERT_EQ(pair.fabric->run().value(), fabric::RunEnd::finished);
  EXPECT_LT(pair.arrived, 330u);
  EXPECT_GT(pair.arrived, 230u);
  EXPECT_EQ(pair.timed_out, slots);
  EXPECT_EQ(pair.sender->counts().failed, 0u);
}

}  // namespace
}  // namespace loch::rpc
