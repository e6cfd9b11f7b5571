// Tests which addresses a host tells other ranks, and in which order it tries theirs.
#include "common/cluster/host_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::cluster {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

const std::vector<HostAddress> own = {
    {.interface = "lo", .text = "127.0.0.1", .bits = 8, .is_loopback = true},
    {.interface = "lo", .text = "::1", .bits = 128, .is_loopback = true},
    {.interface = "eth0", .text = "10.1.2.3", .bits = 16, .is_loopback = false},
    {.interface = "ib0", .text = "192.168.5.1", .bits = 24, .is_loopback = false},
    {.interface = "docker0", .text = "172.17.0.1", .bits = 16, .is_loopback = false},
    {.interface = "eth0", .text = "fd00:1::7", .bits = 64, .is_loopback = false},
};

TEST(HostAddresses, AllButTheLoopbackAreShown) {
  EXPECT_THAT(shown_addresses(own, ""), ElementsAre("10.1.2.3", "192.168.5.1", "172.17.0.1", "fd00:1::7"));
}

TEST(HostAddresses, AListOfInterfacesAndSubnetsChooses) {
  EXPECT_THAT(shown_addresses(own, "ib0"), ElementsAre("192.168.5.1"));
  EXPECT_THAT(shown_addresses(own, "lo"), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(shown_addresses(own, "10.1.0.0/16,ib0"), ElementsAre("10.1.2.3", "192.168.5.1"));
  EXPECT_THAT(shown_addresses(own, "10.1.3.0/24"), IsEmpty());
  EXPECT_THAT(shown_addresses(own, "fd00:1::/64"), ElementsAre("fd00:1::7"));
  EXPECT_THAT(shown_addresses(own, "eth1,10.1.0.0/x,/16,,10.1.0.0"), IsEmpty());
  // an IPv6 prefix is no prefix of IPv4 addresses, although 16 bytes hold both
  EXPECT_THAT(shown_addresses(own, "::/8"), ElementsAre("::1"));
}

TEST(HostAddresses, ThoseInASubnetOfThisHostAreTriedFirst) {
  EXPECT_THAT(addresses_to_try(own, {"172.18.0.1", "fd00:1::8", "203.0.113.9", "10.1.9.9", "192.168.6.1"}),
              ElementsAre("fd00:1::8", "10.1.9.9", "172.18.0.1", "203.0.113.9", "192.168.6.1"));
}

// A bridge for containers has the same address on many hosts.
TEST(HostAddresses, ThoseThatThisHostHasItselfAreNotTried) {
  EXPECT_THAT(addresses_to_try(own, {"172.17.0.1", "10.1.2.4", "nonsense", ""}), ElementsAre("10.1.2.4"));
}

TEST(HostAddresses, ThisMachineHasSomeAndAName) {
  EXPECT_THAT(host_addresses(), Contains(Field(&HostAddress::is_loopback, true)));
  EXPECT_THAT(network_name(), testing::MatchesRegex("[0-9a-f-]+-[0-9]+"));
}

}  // namespace
}  // namespace loch::cluster
