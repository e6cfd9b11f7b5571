// Stress test of RPCs: requests by UC WRITE into polled slots, replies by UD SEND, with messages lost by a
// decorator of the fabric that injects faults (rule 6 of fabric.h). Sequence numbers, time-outs and retries
// guarantee that every operation is executed once and answered. LOCH_STRESS_OPERATIONS sets the number of
// operations (default 20,000).
#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/fabric/fault/fault.h"
#include "common/fabric/memory.h"
#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

constexpr std::uint32_t window = 16, client_nodes = 2;
constexpr std::uint32_t grh = 40, receive_bytes = 128, receives = 128;
constexpr std::uint64_t receive_at = 131072, slots_at = 0, slot_bytes = 64;
constexpr double loss = 0.01;
constexpr Nanos patience = 20 * millisecond;

// Offsets in a request slot: the operand to add, and the sequence word (sequence number << 8 | attempt).
constexpr std::uint64_t operand_word = 0, sequence_word = 8;

std::uint64_t operand_of(std::uint64_t sequence) { return sequence * 0x9E3779B97F4A7C15ull >> 40; }

struct Response {
  std::uint64_t slot, sequence, sum;
};

struct Server {
  std::array<std::uint64_t, window * client_nodes> seen{};      // last sequence word seen in each slot
  std::array<std::uint64_t, window * client_nodes> executed{};  // sequence number last executed for each slot
  std::array<std::uint64_t, window * client_nodes> sum{};
  std::uint64_t repeated = 0;  // number of duplicate requests, which are answered and not executed again
};

struct Client {
  std::array<std::uint64_t, window> sequence{}, attempt{}, sum{};
  std::array<Nanos, window> deadline{};
  std::uint64_t answered = 0, retries = 0, wrong = 0;
  bool gave_up = false;
};

std::uint64_t stress_operations() {
  const char* text = std::getenv("LOCH_STRESS_OPERATIONS");
  return text == nullptr ? 20'000 : std::strtoull(text, nullptr, 10);
}

bool has_news(void* context, std::uint32_t index, std::uint64_t word) {
  return word != static_cast<Server*>(context)->seen[index];
}

void respond(Cluster* cluster, Server* server, std::uint32_t slot) {
  Worker& worker = *cluster->servers[0];
  const Response response{slot, server->executed[slot], server->sum[slot]};
  const LocalSlice from = cluster->at(0, 65536 + slot * 64);
  copy_to_shared(from.data(), &response, sizeof response);
  WorkRequest message;
  message.verb = Verb::send;
  message.transport = Transport::ud;
  message.peer = static_cast<NodeId>(1 + slot / window);
  message.local = from;
  message.length = sizeof response;
  message.is_inline = worker.capabilities().max_inline_bytes >= sizeof response;
  worker.post_detached(message);
}

coro::Task<void> serve(Cluster* cluster, Server* server) {
  Worker& worker = *cluster->servers[0];
  WatchSet set{
      cluster->memory[0], slots_at + sequence_word, slot_bytes, window * client_nodes, has_news, server};
  for (std::uint32_t start = 0;;) {
    const WatchAny news = co_await worker.watch_any(set, start);
    if (news.outcome != WatchOutcome::ready) co_return;
    const std::uint32_t slot = news.index;
    start = slot + 1;
    const std::uint64_t word = cluster->word(0, slots_at + slot * slot_bytes + sequence_word);
    const std::uint64_t operand = cluster->word(0, slots_at + slot * slot_bytes + operand_word);
    const std::uint64_t sequence = word >> 8;
    // The operand does not belong to the sequence word, because the request's WRITE is not completely visible
    // yet.
    if (operand != operand_of(sequence)) continue;
    server->seen[slot] = word;
    if (sequence == server->executed[slot] + 1) {
      server->executed[slot] = sequence;
      server->sum[slot] += operand;
    } else {
      ++server->repeated;
    }
    respond(cluster, server, slot);
  }
}

void request(Cluster* cluster, NodeId node, Client* client, std::uint32_t slot) {
  Worker& worker = *cluster->clients[node];
  const std::uint64_t sequence = client->sequence[slot];
  const LocalSlice from = cluster->at(node, slot * slot_bytes);
  store_word_release(from.data() + operand_word, operand_of(sequence));
  store_word_release(from.data() + sequence_word, sequence << 8 | (client->attempt[slot] & 0xff));
  const std::uint64_t place = slots_at + ((node - 1u) * window + slot) * slot_bytes;
  WorkRequest write = one_sided(Verb::write, cluster->remote[0], place, from, 16, nullptr);
  write.transport = Transport::uc;
  write.is_inline = worker.capabilities().max_inline_bytes >= 16;
  worker.post_detached(write);
  // Each further attempt waits longer: on a machine whose cores are busy, answers take longer than
  // `patience`, and requests that are sent again at a constant rate would then be most of what the server has
  // to answer.
  client->deadline[slot] = worker.now() + (patience << std::min<std::uint64_t>(client->attempt[slot], 6));
}

void take_response(Cluster* cluster, NodeId node, Client* client, const Received& message) {
  Response response{};
  copy_from_shared(&response, cluster->at(node, message.buffer.offset + grh).data(), sizeof response);
  const std::uint64_t slot = response.slot - (node - 1u) * window;
  if (message.length != sizeof response || slot >= window) {
    ++client->wrong;
    return;
  }
  if (response.sequence != client->sequence[slot]) return;  // a late reply to an earlier request
  client->sum[slot] += operand_of(response.sequence);
  if (client->sum[slot] != response.sum) ++client->wrong;
  ++client->answered;
  ++client->sequence[slot];
  client->attempt[slot] = 0;
}

coro::Task<void> drive(Cluster* cluster, NodeId node, Client* client, std::uint64_t each) {
  Worker& worker = *cluster->clients[node];
  const std::uint32_t buffers = std::min(receives, worker.capabilities().recv_queue_depth);
  for (std::uint32_t i = 0; i < buffers; ++i)
    worker.post_recv(Transport::ud, cluster->at(node, receive_at + i * receive_bytes), receive_bytes, 0);
  for (std::uint32_t slot = 0; slot < window; ++slot) {
    client->sequence[slot] = 1;
    request(cluster, node, client, slot);
  }
  const Nanos give_up = worker.now() + 600 * second;
  while (client->answered < each * window) {
    const Nanos soon = worker.now() + patience / 4;
    const Received got = co_await worker.receive(Transport::ud, soon);
    if (got.outcome == Received::Outcome::stopping) co_return;
    std::array<std::uint64_t, window> before = client->sequence;
    if (got.outcome == Received::Outcome::message) {
      take_response(cluster, node, client, got);
      worker.post_recv(Transport::ud, got.buffer, receive_bytes, 0);
    }
    const Nanos now = worker.now();
    client->gave_up = now > give_up;
    if (client->gave_up) co_return;
    for (std::uint32_t slot = 0; slot < window; ++slot) {
      if (client->sequence[slot] > each) continue;
      if (client->sequence[slot] == before[slot] && now < client->deadline[slot]) continue;
      if (client->sequence[slot] == before[slot]) {
        ++client->retries;
        ++client->attempt[slot];
      }
      request(cluster, node, client, slot);
    }
  }
}

TEST_P(FabricTest, NoRequestIsLostOrExecutedTwice) {
  const Backend lossy{GetParam().name, [](std::uint32_t nodes, std::uint64_t seed) {
                        auto inner = GetParam().make(nodes, seed);
                        FaultConfig faults;
                        faults.seed = seed;
                        faults.uc_loss = faults.ud_loss = loss;
                        return inner ? inject_faults(std::move(*inner), faults) : std::move(inner);
                      }};
  Cluster cluster(lossy, 1 + client_nodes, true);
  Server server;
  std::array<Client, client_nodes> clients;
  const std::uint64_t each = stress_operations() / (window * client_nodes);
  cluster.start_server(0, serve(&cluster, &server));
  for (std::uint32_t i = 0; i < client_nodes; ++i)
    cluster.start(static_cast<NodeId>(i + 1), drive(&cluster, static_cast<NodeId>(i + 1), &clients[i], each));
  cluster.run();
  std::uint64_t retries = 0;
  for (std::uint32_t i = 0; i < client_nodes; ++i) {
    EXPECT_FALSE(clients[i].gave_up);
    EXPECT_EQ(clients[i].wrong, 0u);
    EXPECT_EQ(clients[i].answered, each * window);
    retries += clients[i].retries;
    for (std::uint32_t slot = 0; slot < window; ++slot) {
      EXPECT_EQ(server.executed[i * window + slot], each);
      EXPECT_EQ(server.sum[i * window + slot], clients[i].sum[slot]);
    }
  }
  EXPECT_GT(retries, each * window * client_nodes / 200) << "about 2 in 100 lose a message";
  RecordProperty("retries", std::to_string(retries));
  RecordProperty("repeated", std::to_string(server.repeated));
}

}  // namespace
}  // namespace loch::fabric
