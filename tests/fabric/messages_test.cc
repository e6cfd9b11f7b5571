// Conformance tests of fabrics: SEND and RECV on RC, UC and UD, immediates, peers without receive buffers.
#include <atomic>
#include <cstring>

#include "common/fabric/memory.h"
#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

constexpr std::uint64_t receive_at = 65536, receive_stride = 4096;
constexpr std::uint32_t grh = 40;

std::uint64_t head_of(Transport transport) { return transport == Transport::ud ? grh : 0; }

WorkRequest message(Transport transport, NodeId peer, std::uint16_t peer_worker, LocalSlice from,
                    std::uint32_t length) {
  WorkRequest request;
  request.verb = Verb::send;
  request.transport = transport;
  request.peer = peer;
  request.peer_worker = peer_worker;
  request.local = from;
  request.length = length;
  return request;
}

void post_receives(Cluster* cluster, NodeId node, Transport transport, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    cluster->clients[node]->post_recv(transport, cluster->at(node, receive_at + i * receive_stride),
                                      receive_stride, 100 + i);
  }
}

// Number of messages of one sender whose receive buffer has been posted again. A sender that waits for it
// always finds a buffer: on a busy machine a receiver may be without a core for longer than a device repeats
// a SEND.
using ReceivedCount = std::atomic<std::uint32_t>;

// Sends `count` numbered messages over RC; waits while `ahead` of them are not yet counted in `received`, so
// that each message finds a receive buffer.
coro::Task<void> send_numbered(Cluster* cluster, NodeId self, NodeId peer, std::uint32_t count,
                               std::uint32_t ahead, const ReceivedCount* received) {
  constexpr Transport transport = Transport::rc;
  Worker& worker = *cluster->clients[self];
  for (std::uint32_t i = 0; i < count; ++i) {
    while (i - received->load(std::memory_order_acquire) >= ahead)
      co_await worker.sleep_until(worker.now() + 1'000);
    cluster->set_word(self, 0, i);
    WorkRequest request = message(transport, peer, 0, cluster->at(self, 0), 8 + i % 50);
    request.has_immediate = i % 2 == 0;
    request.immediate = i * 3;
    const Completion done = co_await worker.execute(request);
    EXPECT_EQ(done.status, WcStatus::success) << i;
  }
}

coro::Task<void> receive_numbered(Cluster* cluster, NodeId self, std::uint32_t count,
                                  ReceivedCount* received) {
  constexpr Transport transport = Transport::rc;
  Worker& worker = *cluster->clients[self];
  const Nanos deadline = worker.now() + 20 * second;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Received got = co_await worker.receive(transport, deadline);
    EXPECT_EQ(static_cast<int>(got.outcome), static_cast<int>(Received::Outcome::message));
    if (got.outcome != Received::Outcome::message) co_return;
    EXPECT_EQ(got.from, 0);
    EXPECT_EQ(got.from_worker, 0);
    EXPECT_EQ(got.length, 8 + i % 50);
    EXPECT_EQ(got.has_immediate, i % 2 == 0);
    if (got.has_immediate) EXPECT_EQ(got.immediate, i * 3);
    EXPECT_EQ(got.user, 100 + i % 4);
    EXPECT_EQ(got.buffer.offset, receive_at + (i % 4) * receive_stride);
    EXPECT_EQ(load_word(cluster->at(self, got.buffer.offset + head_of(transport)).data()), i);
    worker.post_recv(transport, got.buffer, receive_stride, got.user);
    // A fabric may post the RECVs of one turn of the worker's loop to the device only when the turn ends, and
    // the thread may lose its core before that. After this timer a later turn has begun, so they are posted.
    const Nanos soon = worker.now() + 1;
    co_await worker.sleep_until(soon);
    received->fetch_add(1, std::memory_order_release);
  }
}

TEST_P(FabricTest, ReliableMessagesArriveInOrder) {
  Cluster cluster(GetParam());
  post_receives(&cluster, 1, Transport::rc, 4);
  ReceivedCount received = 0;
  cluster.start(1, receive_numbered(&cluster, 1, 200, &received));
  cluster.start(0, send_numbered(&cluster, 0, 1, 200, 4, &received));
  cluster.run();
}

// Ping-pong: if a buffer is always posted, a network without loss loses no message.
coro::Task<void> ping(Cluster* cluster, Transport transport, int rounds, int* answered) {
  Worker& worker = *cluster->clients[0];
  for (int i = 1; i <= rounds; ++i) {
    cluster->set_word(0, 0, static_cast<std::uint64_t>(i));
    const WorkRequest request = message(transport, 1, 0, cluster->at(0, 0), 8);
    const Completion sent = co_await worker.execute(request);
    EXPECT_TRUE(sent.ok());
    const Nanos deadline = worker.now() + 20 * second;
    const Received got = co_await worker.receive(transport, deadline);
    if (got.outcome != Received::Outcome::message) co_return;
    EXPECT_EQ(load_word(cluster->at(0, got.buffer.offset + head_of(transport)).data()),
              static_cast<std::uint64_t>(i) * 2);
    EXPECT_EQ(got.from, 1);
    worker.post_recv(transport, got.buffer, receive_stride, got.user);
    ++*answered;
  }
}

coro::Task<void> pong(Cluster* cluster, Transport transport, int rounds) {
  Worker& worker = *cluster->clients[1];
  for (int i = 0; i < rounds; ++i) {
    const Nanos deadline = worker.now() + 20 * second;
    const Received got = co_await worker.receive(transport, deadline);
    if (got.outcome != Received::Outcome::message) co_return;
    const std::uint64_t word = load_word(cluster->at(1, got.buffer.offset + head_of(transport)).data());
    worker.post_recv(transport, got.buffer, receive_stride, got.user);
    cluster->set_word(1, 0, word * 2);
    const WorkRequest request = message(transport, got.from, got.from_worker, cluster->at(1, 0), 8);
    const Completion sent = co_await worker.execute(request);
    EXPECT_TRUE(sent.ok());
  }
}

TEST_P(FabricTest, PingPongOverEveryTransport) {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    Cluster cluster(GetParam());
    post_receives(&cluster, 0, transport, 2);
    post_receives(&cluster, 1, transport, 2);
    int answered = 0;
    cluster.start(0, ping(&cluster, transport, 300, &answered));
    cluster.start(1, pong(&cluster, transport, 300));
    cluster.run();
    EXPECT_EQ(answered, 300) << name(transport);
  }
}

coro::Task<void> receive_from_many(Cluster* cluster, std::uint32_t count, std::vector<std::uint64_t>* last,
                                   std::vector<ReceivedCount>* received) {
  Worker& worker = *cluster->clients[0];
  for (std::uint32_t i = 0; i < count; ++i) {
    const Nanos deadline = worker.now() + 20 * second;
    const Received got = co_await worker.receive(Transport::rc, deadline);
    EXPECT_EQ(static_cast<int>(got.outcome), static_cast<int>(Received::Outcome::message));
    if (got.outcome != Received::Outcome::message) co_return;
    const std::uint64_t number = load_word(cluster->at(0, got.buffer.offset).data());
    std::uint64_t& previous = (*last)[got.from];
    EXPECT_TRUE(previous == ~0ull ? number == 0 : number == previous + 1) << number << " after " << previous;
    previous = number;
    worker.post_recv(Transport::rc, got.buffer, receive_stride, got.user);
    (*received)[got.from].fetch_add(1, std::memory_order_release);
  }
}

TEST_P(FabricTest, SendersShareAReceiver) {
  Cluster cluster(GetParam(), 4);
  post_receives(&cluster, 0, Transport::rc, 8);
  std::vector<std::uint64_t> last(4, ~0ull);
  std::vector<ReceivedCount> received(4);
  cluster.start(0, receive_from_many(&cluster, 450, &last, &received));
  for (NodeId node = 1; node < 4; ++node)
    cluster.start(node, send_numbered(&cluster, node, 0, 150, 2, &received[node]));
  cluster.run();
  for (NodeId node = 1; node < 4; ++node) EXPECT_EQ(last[node], 149u);
}

coro::Task<void> send_once(Cluster* cluster, WorkRequest request, WcStatus* status) {
  Worker& worker = *cluster->clients[0];
  const Completion done = co_await worker.execute(request);
  *status = done.status;
}

TEST_P(FabricTest, ReliableSendWithoutAReceiverFailsInTheEnd) {
  Cluster cluster(GetParam());
  WcStatus status = WcStatus::success;
  cluster.start(0, send_once(&cluster, message(Transport::rc, 1, 0, cluster.at(0, 0), 8), &status));
  cluster.run();
  EXPECT_EQ(status, WcStatus::rnr_exceeded);
}

// Sends once, and again if the receiver was so late that a device may have given up: a receiver that got no
// core for so long is not what is tested. `posted` is the time at which it posted its RECV, 0 before that.
coro::Task<void> send_to_late_receiver(Cluster* cluster, const std::atomic<Nanos>* posted, WcStatus* status) {
  constexpr Nanos patience_least = 50 * millisecond;  // every fabric repeats a SEND for longer in real time
  Worker& worker = *cluster->clients[0];
  for (int tries = 0; tries < 100; ++tries) {
    const Nanos began = worker.now();
    const WorkRequest request = message(Transport::rc, 1, 0, cluster->at(0, 0), 8);
    const Completion done = co_await worker.execute(request);
    *status = done.status;
    if (done.status != WcStatus::rnr_exceeded) co_return;
    const Nanos posted_at = posted->load(std::memory_order_acquire);
    const Nanos late = (posted_at == 0 ? worker.now() : posted_at) - began;
    if (late < patience_least) co_return;
    const Nanos deadline = worker.now() + 20 * second;
    const bool connected = co_await worker.reconnect(1, deadline);
    if (!connected) co_return;
  }
}

coro::Task<void> receive_late(Cluster* cluster, std::atomic<Nanos>* posted, std::uint64_t* word) {
  Worker& worker = *cluster->clients[1];
  const Nanos at = worker.now() + 30'000;
  co_await worker.sleep_until(at);
  worker.post_recv(Transport::rc, cluster->at(1, receive_at), 64, 1);
  const Nanos soon = worker.now() + 1;
  co_await worker.sleep_until(soon);  // RECVs may reach the device only when this turn of the loop ends
  posted->store(worker.now(), std::memory_order_release);
  const Nanos deadline = worker.now() + 20 * second;
  const Received got = co_await worker.receive(Transport::rc, deadline);
  EXPECT_EQ(got.length, 8u);
  *word = cluster->word(1, receive_at);
}

TEST_P(FabricTest, ReliableSendWaitsForALateReceiver) {
  Cluster cluster(GetParam());
  cluster.set_word(0, 0, 4711);
  WcStatus status = WcStatus::local_error;
  std::uint64_t word = 0;
  std::atomic<Nanos> posted = 0;
  cluster.start(1, receive_late(&cluster, &posted, &word));
  cluster.start(0, send_to_late_receiver(&cluster, &posted, &status));
  cluster.run();
  EXPECT_EQ(status, WcStatus::success);
  EXPECT_EQ(word, 4711u);
}

// Sends four messages over an unreliable transport: three find no receive buffer and are lost; the fourth
// arrives.
coro::Task<void> send_into_the_void(Cluster* cluster, Transport transport) {
  Worker& worker = *cluster->clients[0];
  for (std::uint64_t i = 1; i <= 3; ++i) {
    cluster->set_word(0, 0, i);
    const WorkRequest request = message(transport, 1, 0, cluster->at(0, 0), 8);
    const Completion done = co_await worker.execute(request);
    EXPECT_TRUE(done.ok());  // an unreliable SEND completes even if it is lost
  }
  const Nanos later = worker.now() + 3 * millisecond;
  co_await worker.sleep_until(later);
  const Completion go = co_await worker.faa(cluster->remote[1], 128, 1);
  EXPECT_TRUE(go.ok());
  const WatchWord posted{cluster->memory[0], 192, ~0ull, 1, true, std::nullopt};
  const Nanos deadline = worker.now() + 20 * second;
  const WatchOutcome outcome = co_await worker.watch(posted, deadline);
  EXPECT_EQ(outcome, WatchOutcome::ready);
  cluster->set_word(0, 0, 4);
  const WorkRequest request = message(transport, 1, 0, cluster->at(0, 0), 8);
  const Completion done = co_await worker.execute(request);
  EXPECT_TRUE(done.ok());
}

coro::Task<void> receive_after_signal(Cluster* cluster, Transport transport, std::uint64_t* word) {
  Worker& worker = *cluster->clients[1];
  const WatchWord go{cluster->memory[1], 128, ~0ull, 1, true, std::nullopt};
  const Nanos deadline = worker.now() + 20 * second;
  const WatchOutcome outcome = co_await worker.watch(go, deadline);
  EXPECT_EQ(outcome, WatchOutcome::ready);
  worker.post_recv(transport, cluster->at(1, receive_at), 1024, 1);
  cluster->set_word(1, 0, 1);
  const LocalSlice flag = cluster->at(1, 0);
  const Completion told = co_await worker.write(cluster->remote[0], 192, flag, 8);
  EXPECT_TRUE(told.ok());
  const Received got = co_await worker.receive(transport, deadline);
  EXPECT_EQ(static_cast<int>(got.outcome), static_cast<int>(Received::Outcome::message));
  *word = cluster->word(1, receive_at + head_of(transport));
}

TEST_P(FabricTest, UnreliableMessagesWithoutABufferAreDropped) {
  for (const Transport transport : {Transport::uc, Transport::ud}) {
    Cluster cluster(GetParam());
    std::uint64_t word = 0;
    cluster.start(1, receive_after_signal(&cluster, transport, &word));
    cluster.start(0, send_into_the_void(&cluster, transport));
    cluster.run();
    EXPECT_EQ(word, 4u) << name(transport);
  }
}

coro::Task<void> write_with_immediate(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->fill(0, 0, 200, 5);
  WorkRequest request = one_sided(Verb::write, cluster->remote[1], 512, cluster->at(0, 0), 200, nullptr);
  request.has_immediate = true;
  request.immediate = 77;
  const Completion done = co_await worker.execute(request);
  EXPECT_TRUE(done.ok());
}

// The receive completion of a WRITE with immediate guarantees that the written data is visible (rule 3 of
// fabric.h).
coro::Task<void> expect_immediate(Cluster* cluster) {
  Worker& worker = *cluster->clients[1];
  const Nanos deadline = worker.now() + 20 * second;
  const Received got = co_await worker.receive(Transport::rc, deadline);
  EXPECT_EQ(static_cast<int>(got.outcome), static_cast<int>(Received::Outcome::message));
  EXPECT_TRUE(got.has_immediate);
  EXPECT_EQ(got.immediate, 77u);
  EXPECT_EQ(got.length, 200u);
  EXPECT_TRUE(cluster->holds(1, 512, 200, 5));
}

TEST_P(FabricTest, WriteWithImmediateAnnouncesItself) {
  Cluster cluster(GetParam());
  post_receives(&cluster, 1, Transport::rc, 1);
  cluster.start(1, expect_immediate(&cluster));
  cluster.start(0, write_with_immediate(&cluster));
  cluster.run();
}

coro::Task<void> receive_nothing(Cluster* cluster, Nanos* waited) {
  Worker& worker = *cluster->clients[0];
  const Nanos started = worker.now();
  const Nanos deadline = started + 2 * millisecond;
  const Received got = co_await worker.receive(Transport::ud, deadline);
  EXPECT_EQ(static_cast<int>(got.outcome), static_cast<int>(Received::Outcome::timed_out));
  *waited = worker.now() - started;
}

TEST_P(FabricTest, ReceiveHasADeadline) {
  Cluster cluster(GetParam());
  Nanos waited = 0;
  cluster.start(0, receive_nothing(&cluster, &waited));
  cluster.run();
  EXPECT_GE(waited, 2 * millisecond);
}

// Receives a message, and then again with a deadline that has passed already: the second call returns at
// once, without a message.
coro::Task<void> receive_what_is_there(Cluster* cluster, std::vector<int>* outcomes) {
  Worker& worker = *cluster->clients[1];
  post_receives(cluster, 1, Transport::ud, 2);
  cluster->set_word(1, 8, 1);
  const LocalSlice posted = cluster->at(1, 8);
  const Completion said = co_await worker.write(cluster->remote[0], 200, posted, 8);
  EXPECT_TRUE(said.ok());
  const Received first = co_await worker.receive(Transport::ud, worker.now() + 20 * second);
  outcomes->push_back(static_cast<int>(first.outcome));
  const Received second = co_await worker.receive(Transport::ud, worker.now());
  outcomes->push_back(static_cast<int>(second.outcome));
  cluster->set_word(1, 0, 1);
  const LocalSlice flag = cluster->at(1, 0);
  const Completion told = co_await worker.write(cluster->remote[0], 192, flag, 8);
  EXPECT_TRUE(told.ok());
}

coro::Task<void> send_and_wait(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const WatchWord posted{cluster->memory[0], 200, ~0ull, 1, true, std::nullopt};
  const Nanos patience = worker.now() + 20 * second;
  const WatchOutcome is_ready = co_await worker.watch(posted, patience);
  EXPECT_EQ(is_ready, WatchOutcome::ready);
  const WorkRequest request = message(Transport::ud, 1, 0, cluster->at(0, 0), 8);
  const Completion sent = co_await worker.execute(request);
  EXPECT_TRUE(sent.ok());
  const WatchWord done{cluster->memory[0], 192, ~0ull, 1, true, std::nullopt};
  const Nanos deadline = worker.now() + 20 * second;
  const WatchOutcome outcome = co_await worker.watch(done, deadline);
  EXPECT_EQ(outcome, WatchOutcome::ready);
}

TEST_P(FabricTest, ReceiveCanLookWithoutWaiting) {
  Cluster cluster(GetParam());
  std::vector<int> outcomes;
  cluster.start(1, receive_what_is_there(&cluster, &outcomes));
  cluster.start(0, send_and_wait(&cluster));
  cluster.run();
  const std::vector<int> expected{static_cast<int>(Received::Outcome::message),
                                  static_cast<int>(Received::Outcome::timed_out)};
  EXPECT_EQ(outcomes, expected);
}

// Sends on the worker's UD queue pairs (lanes) one after another, so that the order of arrival is known.
coro::Task<void> send_on_all_lanes(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (std::uint32_t i = 0; i < 4 * ud_lanes; ++i) {
    WorkRequest request = message(Transport::ud, 1, 0, cluster->at(0, 0), 8 + i % 50);
    request.lane = static_cast<std::uint8_t>(i % ud_lanes);
    request.has_immediate = i % 2 == 0;
    request.immediate = i * 3;
    const Completion done = co_await worker.execute(request);
    EXPECT_EQ(done.status, WcStatus::success) << i;
    const WatchWord seen{cluster->memory[0], 192, ~0ull, i + 1, true, std::nullopt};
    const Nanos deadline = worker.now() + 20 * second;
    const WatchOutcome outcome = co_await worker.watch(seen, deadline);
    EXPECT_EQ(outcome, WatchOutcome::ready) << i;
    if (outcome != WatchOutcome::ready) co_return;
  }
}

coro::Task<void> answer_datagrams(Cluster* cluster) {
  Worker& worker = *cluster->clients[1];
  for (std::uint32_t i = 0; i < 4 * ud_lanes; ++i) {
    const Nanos deadline = worker.now() + 20 * second;
    const Received got = co_await worker.receive(Transport::ud, deadline);
    EXPECT_EQ(got.outcome, Received::Outcome::message) << i;
    if (got.outcome != Received::Outcome::message) co_return;
    EXPECT_EQ(got.from, 0) << "whatever the lane";
    EXPECT_EQ(got.from_worker, 0);
    EXPECT_EQ(got.length, 8 + i % 50);
    worker.post_recv(Transport::ud, got.buffer, receive_stride, got.user);
    cluster->set_word(1, 0, i + 1);
    const LocalSlice flag = cluster->at(1, 0);
    const Completion told = co_await worker.write(cluster->remote[0], 192, flag, 8);
    EXPECT_TRUE(told.ok());
  }
}

TEST_P(FabricTest, DatagramsOfAllLanesComeFromTheirWorker) {
  Cluster cluster(GetParam());
  post_receives(&cluster, 1, Transport::ud, 2);
  cluster.start(1, answer_datagrams(&cluster));
  cluster.start(0, send_on_all_lanes(&cluster));
  cluster.run();
}

constexpr std::uint32_t datagrams_each = 12;

// Sends datagrams to the two workers of node 1 in turn, inlined or not, with an immediate or without, and
// waits for the answer to each.
coro::Task<void> send_to_both(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (std::uint32_t i = 0; i < 2 * datagrams_each; ++i) {
    const std::uint16_t to = i % 2;
    cluster->fill(0, 0, 8 + i, i);
    WorkRequest request = message(Transport::ud, 1, to, cluster->at(0, 0), 8 + i);
    request.is_inline = i / 2 % 2 == 0 && request.length <= worker.capabilities().max_inline_bytes;
    request.has_immediate = i / 4 % 2 == 0;
    request.immediate = request.has_immediate ? 1000 + i : 0;
    if (request.is_inline) {
      worker.post_detached(request);
      cluster->fill(0, 0, 8 + i, i + 1'000);  // the buffer of inlined data is free once the request is posted
    } else {
      const Completion done = co_await worker.execute(request);
      EXPECT_EQ(done.status, WcStatus::success) << i;
    }
    const WatchWord seen{cluster->memory[0], 192 + 8u * to, ~0ull, i / 2 + 1, true, std::nullopt};
    const Nanos deadline = worker.now() + 20 * second;
    const WatchOutcome outcome = co_await worker.watch(seen, deadline);
    EXPECT_EQ(outcome, WatchOutcome::ready) << i;
    if (outcome != WatchOutcome::ready) co_return;
  }
}

coro::Task<void> answer_as(Cluster* cluster, Worker* worker, std::uint32_t own) {
  for (std::uint32_t n = 0; n < datagrams_each; ++n) {
    const std::uint32_t i = 2 * n + own;
    const Nanos deadline = worker->now() + 20 * second;
    const Received got = co_await worker->receive(Transport::ud, deadline);
    EXPECT_EQ(got.outcome, Received::Outcome::message) << i;
    if (got.outcome != Received::Outcome::message) co_return;
    EXPECT_EQ(got.length, 8 + i);
    EXPECT_TRUE(cluster->holds(1, got.buffer.offset + grh, 8 + i, i)) << i;
    EXPECT_EQ(got.has_immediate, i / 4 % 2 == 0) << i;
    EXPECT_EQ(got.immediate, i / 4 % 2 == 0 ? 1000 + i : 0u);
    worker->post_recv(Transport::ud, got.buffer, receive_stride, got.user);
    cluster->set_word(1, 8u * own, n + 1);
    const LocalSlice flag = cluster->at(1, 8u * own);
    const Completion told = co_await worker->write(cluster->remote[0], 192 + 8u * own, flag, 8);
    EXPECT_TRUE(told.ok());
  }
}

TEST_P(FabricTest, DatagramsReachTheWorkerThatIsNamed) {
  Cluster cluster(GetParam(), 2, true);
  Worker* const workers[] = {cluster.clients[1], cluster.servers[1]};
  for (std::uint32_t own = 0; own < 2; ++own) {
    for (std::uint32_t i = 0; i < 2; ++i)
      workers[own]->post_recv(Transport::ud, cluster.at(1, receive_at + (2 * own + i) * receive_stride),
                              receive_stride, i);
  }
  cluster.start(1, answer_as(&cluster, workers[0], 0));
  cluster.start_server(1, answer_as(&cluster, workers[1], 1));
  cluster.start(0, send_to_both(&cluster));
  cluster.run();
}

coro::Task<void> send_refused(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const Capabilities& can = worker.capabilities();
  const WorkRequest good = message(Transport::ud, 1, 0, cluster->at(0, 0), 8);
  WorkRequest too_long = good, too_long_inline = good, outside = good;
  too_long.length = can.mtu_bytes + 1;
  too_long_inline.is_inline = true;
  too_long_inline.length = can.max_inline_bytes + 1;
  outside.local.offset = memory_bytes - 4;
  for (const WorkRequest& request : {too_long, too_long_inline, outside}) {
    const Completion done = co_await worker.execute(request);
    EXPECT_EQ(done.status, WcStatus::local_error) << request.length;
  }
  const Completion done = co_await worker.execute(good);
  EXPECT_EQ(done.status, WcStatus::success);
}

TEST_P(FabricTest, ADatagramThatDoesNotFitIsALocalError) {
  Cluster cluster(GetParam());
  cluster.start(0, send_refused(&cluster));
  cluster.run();
}

coro::Task<void> serve_receives(Worker* worker, bool* stopped) {
  const Received got = co_await worker->receive(Transport::rc);
  *stopped = got.outcome == Received::Outcome::stopping && worker->stopping();
}

coro::Task<void> nap(Worker* worker) {
  const Nanos at = worker->now() + millisecond;
  co_await worker->sleep_until(at);
}

TEST_P(FabricTest, ServersStopReceivingAtTheEnd) {
  Cluster cluster(GetParam(), 2, true);
  bool stopped = false;
  cluster.start_server(1, serve_receives(cluster.servers[1], &stopped));
  cluster.start(0, nap(cluster.clients[0]));
  cluster.run();
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace loch::fabric
