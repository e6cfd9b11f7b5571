// Tests requests and replies on sim and shm: pairing, several window slots (lanes) of a worker, losses,
// repeated requests.
#include "common/rpc/message_channel.h"

#include <gtest/gtest.h>

#include <cstring>

#include "common/fabric/sim/sim.h"
#include "tests/support/fabrics.h"

namespace loch::rpc {
namespace {

using fabric::Transport;

constexpr Nanos millisecond = 1'000'000;

struct Setting {
  std::string fabric = "sim";
  MessageShape shape;
  fabric::sim::SimFaults faults;
};

std::unique_ptr<fabric::Fabric> make_fabric(const Setting& setting) {
  return support::make_fabric(
      setting.fabric,
      {.nodes = setting.shape.nodes, .seed = 3, .faults = setting.faults, .hardware = "connectx3-56g-ib"});
}

// Servers that add up the first 8 bytes of each request, and reply with these 8 bytes plus one.
class Office {
 public:
  explicit Office(const Setting& setting) : shape(setting.shape), fabric(make_fabric(setting)) {
    for (std::uint32_t at = 0; at < shape.nodes; ++at) {
      const auto node = static_cast<fabric::NodeId>(at);
      auto made = register_messages(*fabric, node, shape);
      LOCH_CHECK(made.has_value(), "{}", made.error().message);
      regions.push_back(*made);
      for (std::uint32_t i = 0; i < shape.client_workers && node >= shape.server_nodes; ++i)
        clients.push_back(add(node, fabric::Role::client, i));
      for (std::uint32_t i = 0;
           i < shape.server_workers && (shape.server_nodes == 0 || node < shape.server_nodes); ++i)
        servers.push_back(add(node, fabric::Role::server, shape.server_worker(i)));
    }
    LOCH_CHECK(fabric->exchange(10'000 * millisecond).has_value(), "no exchange");
    sums.resize(servers.size());
    executed.resize(servers.size());
    counters.resize(servers.size());
    closing.resize(servers.size());
    memories.resize(servers.size());
    channels.resize(clients.size());
  }
  void run() {
    for (std::size_t i = 0; i < servers.size(); ++i) fabric->start(*servers[i], serve(this, i));
    const auto end = fabric->run();
    ASSERT_TRUE(end.has_value());
    ASSERT_EQ(*end, fabric::RunEnd::finished);
  }
  [[nodiscard]] std::uint64_t all_executed() const {
    std::uint64_t all = 0;
    for (const std::uint64_t each : executed) all += each;
    return all;
  }

  static coro::Task<void> serve(Office* self, std::size_t which) {
    fabric::Worker& worker = *self->servers[which];
    const auto index = static_cast<std::uint32_t>(which % self->shape.server_workers);
    MessageServer server(self->shape, self->regions[worker.node()], worker, index, self->memories[which]);
    for (;;) {
      const Incoming request = co_await server.next();
      if (request.outcome != Incoming::Outcome::request) break;
      co_await worker.compute(self->work);
      std::uint64_t word = 0;
      std::memcpy(&word, request.data, sizeof word);
      self->sums[which] += word;
      ++self->executed[which];
      if (self->drop_one_in != 0 && self->executed[which] % self->drop_one_in == 0) {
        server.drop(request);
        continue;
      }
      ++word;
      std::byte* const out = co_await server.reply_buffer();
      std::memset(out, 0, std::min(self->shape.kept_bytes, self->reply_bytes));
      std::memcpy(out, &word, sizeof word);
      server.reply(request, self->reply_bytes);
      if (self->ends_after_one) break;
    }
    const Nanos before = worker.now();
    co_await server.close();
    self->closing[which] = worker.now() - before;
    self->counters[which] = server.counters();
  }

  MessageShape shape;
  std::unique_ptr<fabric::Fabric> fabric;
  std::vector<MessageRegions> regions;
  std::vector<fabric::Worker*> clients, servers;
  std::vector<std::uint64_t> sums, executed;  // by server: sum of requests' words, requests executed
  std::vector<MessageCounters> counters;
  std::vector<ServerMemory> memories;                    // by server
  std::vector<std::unique_ptr<MessageClient>> channels;  // by client; each is made by its first run
  std::uint64_t drop_one_in = 0;
  std::uint32_t reply_bytes = 8;
  Nanos work = 0;               // ns for which a server computes before it looks at a request
  bool ends_after_one = false;  // whether each server ends after its first reply
  std::vector<Nanos> closing;   // ns that each server took to close

 private:
  fabric::Worker* add(fabric::NodeId node, fabric::Role role, std::uint32_t index) {
    return fabric->add_worker({node, role, static_cast<std::uint16_t>(index), -1, "worker"}).value();
  }
};

struct Answers {
  std::uint64_t right = 0, wrong = 0, none = 0, retries = 0, sum = 0;
  fabric::OpStats stats;
};

// Sends the requests of one lane (window slot) to every server in turn, each with a different word.
coro::Task<void> ask(Office* office, MessageClient* client, std::uint32_t lane, std::uint64_t first,
                     std::uint64_t count, Answers* out) {
  const std::uint32_t length = office->shape.request_bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t word = first + i;
    std::byte* const request = client->request(lane);
    std::memcpy(request, &word, sizeof word);
    const std::size_t server = i % office->servers.size();
    const ServerAddress to{office->servers[server]->node(),
                           static_cast<std::uint16_t>(server % office->shape.server_workers)};
    const Reply reply = co_await client->call(lane, to, 1, length, &out->stats);
    out->retries += reply.retries;
    if (!reply.ok()) {
      ++out->none;
      continue;
    }
    std::uint64_t answer = 0;
    std::memcpy(&answer, reply.data, sizeof answer);
    ++(reply.length == office->reply_bytes && answer == word + 1 ? out->right : out->wrong);
    out->sum += word;
  }
}

coro::Task<void> ask_in_all_lanes(Office* office, std::size_t w, std::uint64_t count, Answers* out) {
  fabric::Worker& worker = *office->clients[w];
  std::unique_ptr<MessageClient>& client = office->channels[w];
  if (client == nullptr)
    client = std::make_unique<MessageClient>(office->shape, office->regions[worker.node()], worker);
  std::vector<Answers> each(office->shape.window);
  {
    coro::Scope scope(worker.run_queue());
    for (std::uint32_t lane = 0; lane < office->shape.window; ++lane)
      scope.spawn(ask(office, client.get(), lane, 1'000 * (w * 100 + lane), count, &each[lane]));
    co_await scope.join();
  }
  for (const Answers& lane : each) {
    out->right += lane.right;
    out->wrong += lane.wrong;
    out->none += lane.none;
    out->retries += lane.retries;
    out->sum += lane.sum;
  }
}

MessageShape shape_of(Transport transport, std::uint32_t nodes = 3) {
  MessageShape shape;
  shape.name = "office";
  shape.transport = transport;
  shape.nodes = nodes;
  shape.client_workers = 2;
  shape.server_workers = 2;
  shape.window = 3;
  shape.request_bytes = 40;
  shape.reply_bytes = 24;
  return shape;
}

Answers run_all(Office& office, std::uint64_t count) {
  std::vector<Answers> each(office.clients.size());
  for (std::size_t w = 0; w < office.clients.size(); ++w)
    office.fabric->start(*office.clients[w], ask_in_all_lanes(&office, w, count, &each[w]));
  office.run();
  Answers all;
  for (const Answers& one : each) {
    all.right += one.right;
    all.wrong += one.wrong;
    all.none += one.none;
    all.retries += one.retries;
    all.sum += one.sum;
  }
  return all;
}

class OnFabric : public testing::TestWithParam<const char*> {};

TEST_P(OnFabric, NodesThatOnlyServe) {
  MessageShape shape = shape_of(Transport::rc);
  shape.server_nodes = 1;
  shape.reply_timeout = 500 * millisecond;
  shape.patience = 5'000 * millisecond;
  Office office({.fabric = GetParam(), .shape = shape});
  EXPECT_EQ(office.clients.size(), 4U);
  EXPECT_EQ(office.servers.size(), 2U);
  const Answers answers = run_all(office, 20);
  EXPECT_EQ(answers.right, 4U * 3 * 20);
  EXPECT_EQ(office.all_executed(), answers.right);
}

TEST_P(OnFabric, EveryLaneGetsItsOwnReplies) {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    for (const bool is_inline : {false, true}) {
      MessageShape shape = shape_of(transport);
      shape.is_inline = is_inline;
      shape.signals_every = !is_inline;
      shape.reply_timeout = 500 * millisecond;
      shape.patience = 5'000 * millisecond;
      Office office({.fabric = GetParam(), .shape = shape});
      const Answers answers = run_all(office, 100);
      EXPECT_EQ(answers.right, 6u * 3 * 100) << fabric::name(transport);
      EXPECT_EQ(answers.wrong + answers.none, 0u);
      std::uint64_t sum = 0;
      for (const std::uint64_t each : office.sums) sum += each;
      EXPECT_EQ(sum, answers.sum);
      EXPECT_EQ(office.all_executed(), answers.right);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, OnFabric, testing::Values("sim", "shm"),
                         [](const auto& info) { return std::string(info.param); });

// A real-time fabric runs several times, each time with new main coroutines. More requests are outstanding
// than a server has RECVs, so that a buffer which is posted twice gets a request while the server still reads
// another one from it.
TEST(Runs, ALaterRunDoesNotPostTheSameBuffersAgain) {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    MessageShape shape = shape_of(transport);
    shape.most_receives = 4;
    shape.reply_timeout = (transport == Transport::rc ? 5'000 : 5) * millisecond;
    shape.patience = 50'000 * millisecond;
    Office office({.fabric = "shm", .shape = shape});
    office.work = 10'000;
    for (std::uint64_t run = 1; run <= 4; ++run) {
      const Answers answers = run_all(office, 50);
      EXPECT_EQ(answers.right, 6u * 3 * 50) << fabric::name(transport) << ", run " << run;
      EXPECT_EQ(answers.wrong + answers.none, 0u) << fabric::name(transport) << ", run " << run;
      EXPECT_EQ(office.all_executed(), run * 6u * 3 * 50) << fabric::name(transport) << ", run " << run;
    }
  }
}

// A tenth of the messages is lost in either direction, and each request is still executed once.
TEST(Losses, ARequestIsSentAgainAndExecutedOnce) {
  for (const Transport transport : {Transport::uc, Transport::ud}) {
    Setting setting{.shape = shape_of(transport)};
    setting.faults.uc_loss = setting.faults.ud_loss = 0.1;
    setting.faults.ud_reorder = 0.3;
    setting.shape.reply_timeout = millisecond / 10;
    Office office(setting);
    const Answers answers = run_all(office, 200);
    EXPECT_EQ(answers.right, 6u * 3 * 200);
    EXPECT_GT(answers.retries, 100u);
    EXPECT_EQ(office.all_executed(), answers.right);
    std::uint64_t duplicates = 0;
    for (const MessageCounters& each : office.counters) duplicates += each.duplicates;
    EXPECT_GT(duplicates, 50u);
  }
}

// Without the server's table of executed requests, or if a reply is too large to be kept in it, a request
// that arrives twice is executed twice.
TEST(Losses, WhatIsNotKeptIsExecutedAgain) {
  for (const bool is_large : {true, false}) {
    Setting setting{.shape = shape_of(Transport::ud)};
    setting.faults.ud_loss = 0.1;
    setting.shape.reply_timeout = millisecond / 10;
    setting.shape.drops_duplicates = is_large;
    Office office(setting);
    if (is_large) office.reply_bytes = 24;
    const Answers answers = run_all(office, 100);
    EXPECT_EQ(answers.right, 6u * 3 * 100);
    EXPECT_GT(office.all_executed(), answers.right);
  }
}

TEST(Losses, ADroppedRequestIsExecutedWhenItComesAgain) {
  Setting setting{.shape = shape_of(Transport::rc)};
  setting.shape.reply_timeout = millisecond / 10;
  Office office(setting);
  office.drop_one_in = 10;
  const Answers answers = run_all(office, 50);
  EXPECT_EQ(answers.right, 6u * 3 * 50);
  EXPECT_GT(answers.retries, 50u);
}

// A broken connection is made anew in both directions.
TEST(Losses, ConnectionsComeBack) {
  Setting setting{.shape = shape_of(Transport::rc)};
  for (Nanos at = millisecond / 10; at < 1'000 * millisecond; at += 100 * millisecond) {
    setting.faults.schedule.push_back({.kind = fabric::sim::ScheduledFault::Kind::cut,
                                       .node = static_cast<fabric::NodeId>(at / (100 * millisecond) % 3),
                                       .at = at,
                                       .span = 60 * millisecond});
  }
  setting.shape.reply_timeout = 5 * millisecond;
  setting.shape.patience = 10'000 * millisecond;
  Office office(setting);
  const Answers answers = run_all(office, 20'000);
  EXPECT_EQ(answers.right, 6u * 3 * 20'000);
  EXPECT_EQ(answers.wrong + answers.none, 0u);
  EXPECT_EQ(office.all_executed(), answers.right);
}

TEST(Losses, NobodyAnswersForADeadServer) {
  Setting setting{.shape = shape_of(Transport::rc, 2)};
  setting.shape.client_workers = setting.shape.server_workers = setting.shape.window = 1;
  setting.shape.patience = 5 * millisecond;
  setting.shape.reply_timeout = millisecond;
  for (const fabric::NodeId node : {0, 1}) {
    setting.faults.schedule.push_back(
        {.kind = fabric::sim::ScheduledFault::Kind::kill, .node = node, .worker = 1, .at = 1'000});
  }
  Office office(setting);
  Answers answers;
  office.fabric->start(*office.clients[0], ask_in_all_lanes(&office, 0, 4, &answers));
  office.run();
  EXPECT_EQ(answers.none, 4u);
}

// Sends server worker 0 of node 1 a message whose length and immediate the caller has set.
coro::Task<void> send_as_is(Office* office, fabric::WorkRequest request) {
  fabric::Worker& worker = *office->clients[0];
  request.verb = fabric::Verb::send;
  request.transport = office->shape.transport;
  request.peer = 1;
  request.peer_worker = static_cast<std::uint16_t>(office->shape.server_worker(0));
  request.local = {office->regions[0].send, MessageShape::head};
  const fabric::Completion sent = co_await worker.execute(request);
  EXPECT_TRUE(sent.ok());
  co_await worker.sleep_until(worker.now() + millisecond);
}

// The completion of a reply's SEND is written into the server object, so close() has to wait for it before
// the object is destroyed.
TEST(Closing, AServerWaitsForTheCompletionsOfItsReplies) {
  MessageShape shape = shape_of(Transport::rc, 2);
  shape.client_workers = shape.server_workers = shape.window = 1;
  shape.server_nodes = 1;
  Office office({.shape = shape});
  office.ends_after_one = true;
  Answers answers;
  office.fabric->start(*office.clients[0], ask_in_all_lanes(&office, 0, 1, &answers));
  office.run();
  EXPECT_EQ(answers.right, 1u);
  // closing waits for the completion of the last SEND, which takes a round trip: > 200 ns
  EXPECT_GT(office.closing.at(0), 200);
}

// A message without an immediate, with an unknown window slot (lane) or longer than a request is counted and
// not executed.
TEST(Strays, AreNotExecuted) {
  MessageShape shape = shape_of(Transport::rc, 2);
  shape.request_bytes = 24;
  shape.reply_bytes = 40;
  shape.window = 1;
  const MessageTag sane{.op = 1, .lane = 0, .number = 1}, odd_lane{.op = 1, .lane = 1, .number = 1};
  struct Case {
    const char* what;
    bool has_immediate;
    MessageTag tag;
    std::uint32_t length;
    std::uint64_t executed;
  };
  for (const Case& each :
       {Case{"a request", true, sane, 24, 1}, Case{"no immediate", false, sane, 24, 0},
        Case{"a lane too many", true, odd_lane, 24, 0}, Case{"longer than a request", true, sane, 40, 0}}) {
    Office office({.shape = shape});
    fabric::WorkRequest request;
    request.has_immediate = each.has_immediate;
    request.immediate = each.has_immediate ? each.tag.pack() : 0;
    request.length = each.length;
    office.fabric->start(*office.clients[0], send_as_is(&office, request));
    office.run();
    std::uint64_t strays = 0;
    for (const MessageCounters& counters : office.counters) strays += counters.strays;
    EXPECT_EQ(office.all_executed(), each.executed) << each.what;
    EXPECT_EQ(strays, 1 - each.executed) << each.what;
  }
}

// A request's payload bytes include its reply's; a request to a server on the client's own node counts no
// bytes.
TEST(Counts, ARequestIsItsBytesAndItsReplys) {
  Setting setting{.shape = shape_of(Transport::rc, 2)};
  setting.shape.client_workers = setting.shape.server_workers = setting.shape.window = 1;
  Office office(setting);
  Answers answers;
  MessageClient client(office.shape, office.regions[0], *office.clients[0]);
  office.fabric->start(*office.clients[0], ask(&office, &client, 0, 5, 10, &answers));
  office.run();
  EXPECT_EQ(answers.right, 10u);
  EXPECT_EQ(answers.stats.send, 10u + 5u) << "the requests, and the replies that another node sent";
  EXPECT_EQ(answers.stats.recv, 10u);
  EXPECT_EQ(answers.stats.payload_bytes, 5u * (40 + 8)) << "five of the ten go to the own node";
}

TEST(Tag, GoesThereAndBack) {
  const MessageTag tag{.op = 7,
                       .lane = 255,
                       .number = MessageTag::number_mask,
                       .server_incarnation = true,
                       .client_incarnation = true};
  EXPECT_EQ(tag.pack(), ~0U);
  const MessageTag other = MessageTag::unpack(MessageTag{.op = 3, .lane = 7, .number = 12'345}.pack());
  EXPECT_EQ(other.op, 3);
  EXPECT_EQ(other.lane, 7);
  EXPECT_EQ(other.number, 12'345u);
}

TEST(Shape, WhatADeviceCannotCarryIsRefused) {
  Setting setting{.shape = shape_of(Transport::ud)};
  const auto fabric = make_fabric(setting);
  setting.shape.request_bytes = 100'000;
  const auto refused = register_messages(*fabric, 0, setting.shape);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("datagram"), std::string::npos);
}

}  // namespace
}  // namespace loch::rpc
