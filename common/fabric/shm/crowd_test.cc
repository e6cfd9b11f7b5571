// Tests workers that share cores: a sleeping worker is woken by the event that it waits for.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/base/parallel.h"
#include "common/fabric/realtime/worker_pool.h"
#include "common/fabric/shm/doorbell.h"
#include "common/fabric/shm/receive_ring.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

using shm::Doorbell;
using shm::ReceiveQueue;
using shm::ReceiveRing;
using shm::ReceiveSlot;

TEST(Doorbell, TellsWhatItsOwnerWaitsFor) {
  Doorbell doorbell{};
  EXPECT_FALSE(doorbell.awaits(3, 64, 72)) << "nobody sleeps";
  doorbell.arm(3, 64, 128);
  EXPECT_TRUE(doorbell.awaits(3, 120, 200));
  EXPECT_TRUE(doorbell.awaits(3, 0, 65));
  EXPECT_FALSE(doorbell.awaits(3, 0, 64));
  EXPECT_FALSE(doorbell.awaits(3, 128, 200));
  EXPECT_FALSE(doorbell.awaits(2, 64, 72)) << "another region";
  doorbell.arm(Doorbell::every_region, 0, 0);
  EXPECT_TRUE(doorbell.awaits(2, 64, 72));
  doorbell.disarm();
  EXPECT_FALSE(doorbell.awaits(2, 64, 72));
}

TEST(Doorbell, EndsASleep) {
  Doorbell doorbell{};
  doorbell.arm(0, 0, 8);
  doorbell.ring();
  const auto before = std::chrono::steady_clock::now();
  doorbell.sleep(20'000'000'000);  // the doorbell was rung before, so that sleep() returns at once
  doorbell.arm(0, 0, 8);
  std::thread ringer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    doorbell.ring();
  });
  doorbell.sleep(20'000'000'000);
  ringer.join();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(15));
}

// Delivers one message through the ring: a sender claims a buffer and fills it, and the owner consumes it and
// posts the buffer again.
std::vector<std::uint64_t> deliver_next(ReceiveRing& ring, ReceiveQueue& queue) {
  ReceiveSlot* slot = ring.claim(1);
  EXPECT_NE(slot, nullptr);
  if (slot != nullptr) ReceiveRing::finish(*slot, ReceiveRing::filled);
  std::vector<std::uint64_t> users;
  (void)queue.poll(
      2, [](NodeId) { return false; }, [&](const ReceiveSlot& got) { users.push_back(got.user); });
  for (const std::uint64_t user : users) queue.post(0, 0, 64, user);
  return users;
}

// A sender that loses its core after claiming one of two buffers holds up the ring's oldest slot. The second
// buffer is filled and posted again until the ring is full; senders then find no buffer until the first
// sender has a core again.
TEST(ReceiveRing, OneSlowSenderDelaysAndLosesNothing) {
  const auto ring = std::make_unique<ReceiveRing>();
  ReceiveQueue queue(ring.get());
  queue.post(0, 0, 64, 7);
  queue.post(0, 0, 64, 8);
  ReceiveSlot* slow = ring->claim(1);
  ASSERT_NE(slow, nullptr);
  for (std::uint64_t round = 1; round < ReceiveRing::slots; ++round)
    ASSERT_THAT(deliver_next(*ring, queue), ::testing::ElementsAre(8U)) << round;
  EXPECT_EQ(queue.waiting(), 1U);
  EXPECT_EQ(ring->claim(1), nullptr) << "the ring has no free slot";

  ReceiveRing::finish(*slow, ReceiveRing::filled);
  std::vector<std::uint64_t> users;
  (void)queue.poll(
      2, [](NodeId) { return false; }, [&](const ReceiveSlot& got) { users.push_back(got.user); });
  EXPECT_THAT(users, ::testing::ElementsAre(7U));
  EXPECT_EQ(queue.waiting(), 0U);
  for (int round = 0; round < 3000; ++round)
    ASSERT_THAT(deliver_next(*ring, queue), ::testing::ElementsAre(8U)) << round;
}

// Buffers that a dead sender had claimed, and buffers that were too small for a message, are posted again
// even if the ring is full.
TEST(ReceiveRing, BuffersOfADeadSenderComeBackThoughTheRingIsFull) {
  const auto ring = std::make_unique<ReceiveRing>();
  ReceiveQueue queue(ring.get());
  queue.post(0, 0, 64, 7);
  queue.post(0, 0, 64, 8);
  ASSERT_NE(ring->claim(5), nullptr);
  for (std::uint64_t round = 1; round < ReceiveRing::slots; ++round)
    ASSERT_THAT(deliver_next(*ring, queue), ::testing::ElementsAre(8U)) << round;
  const auto is_five = [](NodeId node) { return node == 5; };
  EXPECT_EQ(queue.poll(2, is_five, [](const ReceiveSlot&) {}), 0U);
  EXPECT_EQ(queue.waiting(), 0U);
  EXPECT_THAT(deliver_next(*ring, queue), ::testing::ElementsAre(8U));
  EXPECT_THAT(deliver_next(*ring, queue), ::testing::ElementsAre(7U));
}

// How a worker passes the token to the next worker of the ring: by a WRITE, FAA or SEND, or by a CPU store.
enum class Hand : std::uint8_t { write, faa, send, store };

struct Ring {
  static constexpr std::uint32_t rounds = 50;
  std::unique_ptr<Fabric> fabric;
  std::vector<Worker*> workers;
  Region* memory[2];
  Hand hand = Hand::write;
  Nanos holds_for = 0;  // ns for which each worker keeps the token

  Ring(Hand handing, std::uint32_t each) : hand(handing) {
    shm::ShmConfig config;
    config.nodes = 2;
    fabric = shm::make_shm(config).value();
    for (NodeId node = 0; node < 2; ++node)
      memory[node] = fabric->register_region(node, {"memory", 65536, true, true, true, {}}).value();
    for (std::uint32_t i = 0; i < each; ++i) {
      for (NodeId node = 0; node < 2; ++node)
        workers.push_back(
            fabric->add_worker({node, Role::client, static_cast<std::uint16_t>(i), -1, "client"}).value());
    }
    EXPECT_TRUE(fabric->exchange(1'000'000'000).has_value());
  }
};

// Offset of the word by which worker i is given the token that the workers pass round. Each word has a cache
// line of its own.
std::uint64_t word_of(std::size_t i) { return 64 * i; }

coro::Task<void> pass_on(Ring* ring, std::size_t to, std::uint64_t token) {
  Worker& from = *ring->workers[(to + ring->workers.size() - 1) % ring->workers.size()];
  const NodeId peer = ring->workers[to]->node();
  if (ring->hand == Hand::store) {
    from.store_word(*ring->memory[peer], word_of(to), token);
    co_return;
  }
  const RemoteRegion remote = ring->fabric->lookup(peer, "memory").value();
  const std::uint64_t staging = 32768 + word_of(to);
  from.store_word(*ring->memory[from.node()], staging, token);
  if (ring->hand == Hand::write) {
    const Completion done = co_await from.write(remote, word_of(to), {ring->memory[from.node()], staging}, 8);
    EXPECT_TRUE(done.ok());
  } else if (ring->hand == Hand::faa) {
    const Completion done = co_await from.faa(remote, word_of(to), 1);
    EXPECT_TRUE(done.ok());
  } else {
    WorkRequest message;
    message.verb = Verb::send;
    message.peer = peer;
    message.peer_worker = ring->workers[to]->index();
    message.local = {ring->memory[from.node()], staging};
    message.length = 8;
    const Completion done = co_await from.execute(message);
    EXPECT_TRUE(done.ok());
  }
}

coro::Task<void> hand_round(Ring* ring, std::size_t me) {
  Worker& worker = *ring->workers[me];
  const std::uint32_t last = Ring::rounds;
  if (ring->hand == Hand::send) {
    for (std::uint32_t i = 0; i < last; ++i)
      worker.post_recv(Transport::rc, {ring->memory[worker.node()], 16384 + word_of(me)}, 8, i);
  }
  const Nanos deadline = worker.now() + 25'000'000'000;
  for (std::uint64_t round = 1; round <= last; ++round) {
    if (me != 0 || round != 1) {  // in the first round worker 0 has the token without waiting
      const std::uint64_t token = me == 0 ? round - 1 : round;
      if (ring->hand == Hand::send) {
        const Received got = co_await worker.receive(Transport::rc, deadline);
        EXPECT_EQ(got.outcome, Received::Outcome::message) << me << " in round " << round;
      } else {
        const WatchWord mine{ring->memory[worker.node()], word_of(me), ~0ull, token, true, std::nullopt};
        const WatchOutcome outcome = co_await worker.watch(mine, deadline);
        EXPECT_EQ(outcome, WatchOutcome::ready) << me << " in round " << round;
      }
    }
    if (ring->holds_for != 0) co_await worker.sleep_until(worker.now() + ring->holds_for);
    if (me + 1 != ring->workers.size() || round != last)
      co_await pass_on(ring, (me + 1) % ring->workers.size(), round);
  }
}

double sum_of(const Fabric& fabric, const char* counter) {
  double sum = 0;
  for (const NodeReport& node : fabric.report().nodes) sum += node.counters.at(counter);
  return sum;
}

class Crowd : public testing::TestWithParam<Hand> {};

TEST_P(Crowd, PassesATokenRound) {
  Ring ring(GetParam(), static_cast<std::uint32_t>(usable_cores()) + 1);
  for (std::size_t i = 0; i < ring.workers.size(); ++i)
    ring.fabric->start(*ring.workers[i], hand_round(&ring, i));
  const Result<RunEnd> end = ring.fabric->run();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*end, RunEnd::finished);
  EXPECT_EQ(ring.fabric->report().counters.at("shm.crowded"), 1);
  EXPECT_GT(sum_of(*ring.fabric, "shm.yields") + sum_of(*ring.fabric, "shm.sleeps"), 0);
}

// Each worker keeps the token for so long that the waiting workers stop polling and go to sleep.
TEST_P(Crowd, WakesWhoSleeps) {
  Ring ring(GetParam(), static_cast<std::uint32_t>(usable_cores()) + 1);
  ring.holds_for = 10'000'000 / static_cast<Nanos>(ring.workers.size());
  for (std::size_t i = 0; i < ring.workers.size(); ++i)
    ring.fabric->start(*ring.workers[i], hand_round(&ring, i));
  const Result<RunEnd> end = ring.fabric->run();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*end, RunEnd::finished);
  EXPECT_GT(sum_of(*ring.fabric, "shm.sleeps"), 0);
}

std::string hand_name(const testing::TestParamInfo<Hand>& chosen) {
  constexpr const char* names[] = {"Write", "Faa", "Send", "Store"};
  return names[static_cast<std::size_t>(chosen.param)];
}

INSTANTIATE_TEST_SUITE_P(Hands, Crowd, testing::Values(Hand::write, Hand::faa, Hand::send, Hand::store),
                         hand_name);

}  // namespace
}  // namespace loch::fabric
