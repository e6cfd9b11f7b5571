// Tests that a reply is counted for the operation that sent the request.
#include "common/fabric/count/count.h"

#include <gtest/gtest.h>

#include "common/fabric/request_counter.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/step/step.h"
#include "common/fabric/wire_table.h"

namespace loch::fabric {
namespace {

// A server's reply is no work request of the client that asked, but counts for the client's operation.
TEST(Count, AnArrivedReplyBelongsToItsOperation) {
  auto made = shm::make_shm({.nodes = 2, .seed = 1});
  ASSERT_TRUE(made.has_value());
  const auto fabric = count_requests(std::move(*made), {.link = LinkFormat::infiniband, .mtu_bytes = 4096});
  Worker* worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
  OpStats stats;
  WorkRequest reply;
  reply.verb = Verb::write;
  reply.peer = 1;
  reply.length = 1032;
  reply.stats = &stats;
  worker->attribute(reply);
  EXPECT_EQ(stats.write, 1u);
  EXPECT_EQ(stats.payload_bytes, 1032u);
  EXPECT_EQ(stats.wire_bytes,
            wire_bytes(Verb::write, Transport::rc, 1032, 4096, LinkFormat::infiniband).total());
  reply.peer = 0;  // a peer on the same node: nothing crosses the network
  worker->attribute(reply);
  EXPECT_EQ(stats.write, 1u);
  // Another node posted the reply's WRITE, so this node's count of posted WRITEs stays 0.
  EXPECT_EQ(fabric->report().nodes[0].counters.at("posted.write"), 0);
}

// A READ of 64 B over RoCE v2 is 208 bytes on the wire, over InfiniBand 136.
TEST(Count, BytesOnTheWireAreThoseOfTheDevicesLink) {
  for (const LinkFormat link : {LinkFormat::infiniband, LinkFormat::roce_v2}) {
    auto device = std::make_unique<step::StepFabric>(step::StepConfig{.nodes = 2});
    Capabilities can = device->capabilities();
    can.link = link;
    device->set_capabilities(can);
    const auto fabric = count_requests(std::move(device), {});
    Worker* worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
    OpStats stats;
    WorkRequest reply;
    reply.verb = Verb::read;
    reply.peer = 1;
    reply.length = 64;
    reply.stats = &stats;
    worker->attribute(reply);
    EXPECT_EQ(stats.wire_bytes, link == LinkFormat::roce_v2 ? 208u : 136u);
  }
}

// Each request of a chain counts, for its verb, its peer and its operation.
TEST(Count, AllRequestsOfAChain) {
  const WireTable wire(LinkFormat::infiniband, 4096);
  RequestCounter counter(0, &wire, 3);
  OpStats first, second;
  WorkRequest chain[3];
  chain[0] = {.verb = Verb::read, .peer = 1, .length = 64, .stats = &first};
  chain[1] = {.verb = Verb::write, .peer = 2, .length = 32, .stats = &second};
  chain[2] = {.verb = Verb::read, .peer = 2, .length = 16, .stats = &second};
  chain[0].next = &chain[1];
  chain[1].next = &chain[2];
  counter.count_chain(chain[0]);
  EXPECT_EQ(counter.by_verb()[static_cast<std::size_t>(Verb::read)].since_reset(), 2u);
  EXPECT_EQ(counter.by_verb()[static_cast<std::size_t>(Verb::write)].since_reset(), 1u);
  EXPECT_EQ(counter.payload().since_reset(), 64u + 32u + 16u);
  const auto total = [](Verb verb, std::uint32_t length) {
    return wire_bytes(verb, Transport::rc, length, 4096, LinkFormat::infiniband).total();
  };
  const auto at = [&](NodeId peer) {
    return counter.peers()[peer].requested.since_reset() + counter.peers()[peer].responded.since_reset();
  };
  EXPECT_EQ(at(1), total(Verb::read, 64));
  EXPECT_EQ(at(2), total(Verb::write, 32) + total(Verb::read, 16));
  EXPECT_EQ(first.read, 1u);
  EXPECT_EQ(first.write, 0u);
  EXPECT_EQ(second.read, 1u);
  EXPECT_EQ(second.write, 1u);
}

}  // namespace
}  // namespace loch::fabric
