// Tests that a client of HERD ignores datagrams that come from no server.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "herd_em/module.h"
#include "tests/support/records.h"

namespace loch::herd {
namespace {

using support::PatternData;

constexpr std::uint32_t key_size = 16, value_size = 32, keys = 40;

// A cluster of two nodes, with two clients and one server on each.
struct Cluster {
  Cluster() : module(make_module()) {
    fabric::sim::SimConfig simulated;
    simulated.nodes = config.nodes = 2;
    simulated.hardware = fabric::sim::load_hardware("connectx3-56g-ib").value();
    fabric = fabric::sim::make_sim(simulated).value();
    config.client_workers = 2;
    config.server_workers = 1;
    config.key_size = key_size;
    config.value_size = config.kept_value_bytes = value_size;
    config.keys = config.max_keys = keys;
    store = module->deploy(config, kv::Options(module->options()), "").value();
    for (const fabric::NodeId node : {0, 1}) {
      EXPECT_TRUE(store->setup_node(*fabric, node));
      for (const std::uint16_t i : {0, 1})
        clients.push_back(fabric->add_worker({node, fabric::Role::client, i, -1, "client"}).value());
      const auto index = static_cast<std::uint16_t>(config.server_index(0));
      servers.push_back(fabric->add_worker({node, fabric::Role::server, index, -1, "server"}).value());
    }
    EXPECT_TRUE(fabric->exchange(1'000'000'000));
    EXPECT_TRUE(store->connect(*fabric));
    EXPECT_TRUE(store->preload(*fabric, PatternData(keys, key_size)));
  }
  kv::DeployConfig config;
  std::unique_ptr<kv::Module> module;
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<kv::Store> store;
  std::vector<fabric::Worker*> clients, servers;
  bool is_over = false;
  std::uint64_t right = 0, wrong = 0;
};

coro::Task<void> get_all(Cluster* cluster, std::uint64_t count) {
  const std::unique_ptr<kv::Client> client = cluster->store->client(*cluster->clients[0], 0);
  std::vector<std::byte> bytes(key_size);
  for (std::uint64_t i = 0; i < count; ++i) {
    PatternData::write_key(i % keys, bytes.data(), key_size);
    const kv::Key key{bytes.data(), key_size};
    fabric::OpStats stats;
    const kv::OpResult got = co_await client->get(key, &stats);
    std::uint64_t number = 0;
    const bool is_right =
        got.status == kv::OpStatus::ok && PatternData::read_value(got.value, &number) && number == i % keys;
    ++(is_right ? cluster->right : cluster->wrong);
  }
  cluster->is_over = true;
}

// Sends an empty reply to each of the first 200 request numbers of a client on node 0, from a worker that is
// not its server. A GET that accepted such a reply would report a miss.
coro::Task<void> reply_to_everything(Cluster* cluster, fabric::Worker* self) {
  std::uint16_t number = 0;
  while (!cluster->is_over) {
    number = static_cast<std::uint16_t>(number % 200 + 1);
    fabric::WorkRequest reply;
    reply.verb = fabric::Verb::send;
    reply.transport = fabric::Transport::ud;
    reply.peer = 0;
    reply.peer_worker = 0;
    reply.has_immediate = true;
    reply.immediate = number;  // names request `number` of the client's window slot 0
    const fabric::Completion sent = co_await self->execute(reply);
    EXPECT_TRUE(sent.ok());
  }
}

TEST(Strays, OfOtherClientsAreNoReplies) {
  for (const std::size_t rogue : {1, 2, 3}) {
    Cluster cluster;
    cluster.fabric->start(*cluster.clients[0], get_all(&cluster, 400));
    cluster.fabric->start(*cluster.clients[rogue], reply_to_everything(&cluster, cluster.clients[rogue]));
    for (fabric::Worker* server : cluster.servers)
      cluster.fabric->start(*server, cluster.store->serve(*server, 0));
    ASSERT_EQ(cluster.fabric->run().value(), fabric::RunEnd::finished);
    EXPECT_EQ(cluster.right, 400u);
    EXPECT_EQ(cluster.wrong, 0u);
    EXPECT_GT(cluster.store->counters().at("stray_replies"), 400);
  }
}

}  // namespace
}  // namespace loch::herd
