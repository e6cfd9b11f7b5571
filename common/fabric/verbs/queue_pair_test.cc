// Tests of path_to(): when the path to an address has a global routing header.
#include "common/fabric/verbs/queue_pair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace loch::fabric::verbs {
namespace {

Address infiniband(std::uint16_t lid, std::uint8_t subnet, bool needs_grh = false) {
  Address address;
  address.lid = lid;
  address.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, subnet, 1, 2, 3, 4, 5, 6, 7, static_cast<std::uint8_t>(lid)};
  address.needs_grh = needs_grh;
  return address;
}

Port port_at(const Address& address, bool is_roce) {
  Port port;
  port.number = 2;
  port.gid_index = 3;
  port.is_roce = is_roce;
  port.address = address;
  return port;
}

TEST(PathTo, ALidIsEnoughWithinASubnetOfInfiniband) {
  const ibv_ah_attr path = path_to(port_at(infiniband(1, 0), false), infiniband(9, 0));
  EXPECT_EQ(path.is_global, 0);
  EXPECT_EQ(path.dlid, 9);
  EXPECT_EQ(path.port_num, 2);
}

// Virtual functions share the LID of their port, so that packets need a global routing header.
TEST(PathTo, APortThatRequiresAGlobalRoutingHeaderGetsOne) {
  for (const auto& [own, peer] : {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
    const Address target = infiniband(9, 0, peer);
    const ibv_ah_attr path = path_to(port_at(infiniband(1, 0, own), false), target);
    EXPECT_EQ(path.is_global, 1);
    EXPECT_EQ(path.dlid, 9);
    EXPECT_EQ(path.grh.sgid_index, 3);
    EXPECT_GT(path.grh.hop_limit, 1);
    EXPECT_TRUE(std::ranges::equal(path.grh.dgid.raw, target.gid));
  }
}

TEST(PathTo, AnotherSubnetIsReachedThroughRouters) {
  EXPECT_EQ(path_to(port_at(infiniband(1, 0), false), infiniband(9, 1)).is_global, 1);
}

TEST(PathTo, PacketsHaveThePortsServiceLevelTrafficClassAndFlowLabel) {
  Port port = port_at(infiniband(1, 0, true), false);
  port.service_level = 3;
  port.traffic_class = 106;
  port.flow_label = 5;
  const ibv_ah_attr path = path_to(port, infiniband(9, 0));
  EXPECT_EQ(path.sl, 3);
  EXPECT_EQ(path.grh.traffic_class, 106);
  EXPECT_EQ(path.grh.flow_label, 5u);
}

TEST(PathTo, RoceIsAddressedByGid) {
  Address address;
  address.gid[15] = 7;
  const ibv_ah_attr path = path_to(port_at({}, true), address);
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.grh.dgid.raw[15], 7);
}

}  // namespace
}  // namespace loch::fabric::verbs
