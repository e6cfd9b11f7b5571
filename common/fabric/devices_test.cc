// Tests of the capabilities that several devices have in common, and of the list of their differences.
#include "common/fabric/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/fabric/rails.h"

namespace loch::fabric {
namespace {

Capabilities rich() {
  Capabilities can;
  can.device = "mlx5_0";
  can.in_order_placement = can.in_order_reads = true;
  can.atomic_scope = AtomicScope::global;
  can.max_inline_bytes = 256;
  can.request_lifetime = 5;
  return can;
}

Capabilities poor() {
  Capabilities can;
  can.device = "mlx4_0";
  can.uc = can.receives_connected = false;
  can.atomic_scope = AtomicScope::nic;
  can.untorn_bytes = 4;
  can.max_rd_atomic = 1;
  can.max_inline_bytes = 0;
  can.mtu_bytes = 1024;
  can.send_queue_depth = 16;
  can.recv_queue_depth = 32;
  can.datagram_queue_pairs = 0;
  can.request_lifetime = 9;
  return can;
}

// least() takes the weaker value of each capability, whatever the order of its arguments, so that every host
// that compares the same devices gets the same capabilities; only the device names are in another order.
TEST(Devices, TheLeastOfTwoIsTheSameEitherWay) {
  Capabilities expected = poor();
  expected.device = "mlx5_0, mlx4_0";
  EXPECT_EQ(least(rich(), poor()), expected);
  expected.device = "mlx4_0, mlx5_0";
  EXPECT_EQ(least(poor(), rich()), expected);
  EXPECT_EQ(least(rich(), rich()), rich());
}

TEST(Devices, UnlikeOnesAreNamed) {
  const std::vector<NodeDevice> devices = {{.host = "n1", .can = rich()}, {.host = "n2", .can = poor()}};
  EXPECT_THAT(unlike(devices), ::testing::IsSupersetOf({
                                   "in_order_placement: no on n2 (mlx4_0); yes on n1 (mlx5_0)",
                                   "uc: no on n2 (mlx4_0); yes on n1 (mlx5_0)",
                                   "mtu_bytes: 1024 on n2 (mlx4_0); 4096 on n1 (mlx5_0)",
                               }));
  EXPECT_TRUE(unlike(std::span(devices).first(1)).empty());
}

// The devices of two processes on two rails, in the order in which the processes told each other.
TEST(Rails, AreTheOrderOfAProcessesDevices) {
  std::vector<NodeDevice> devices(4);
  devices[1].node = devices[3].node = 1;
  devices[0].can.device = devices[3].can.device = "a";
  devices[1].can.device = devices[2].can.device = "b";
  EXPECT_EQ(rails_of(devices), (std::vector<std::uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(count_rails(devices), 2u);
  EXPECT_EQ(device_names(devices, 0), "a+b");
  EXPECT_EQ(device_names(devices, 1), "b+a");
  EXPECT_EQ(device_names(devices, 2), "");
  EXPECT_EQ(count_rails({}), 1u);
}

}  // namespace
}  // namespace loch::fabric
