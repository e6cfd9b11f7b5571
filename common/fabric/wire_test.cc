// Tests bytes on the wire against totals that were derived by hand.
#include "common/fabric/wire.h"

#include <gtest/gtest.h>

namespace loch::fabric {
namespace {

constexpr std::uint32_t mtu = 4096;

TEST(Wire, EqualsTheDerivedTotals) {
  const auto ib = [](Verb verb, Transport transport, std::uint64_t length) {
    return wire_bytes(verb, transport, length, mtu, LinkFormat::infiniband);
  };
  EXPECT_EQ(ib(Verb::read, Transport::rc, 8).total(), 80u);
  EXPECT_EQ(ib(Verb::cas, Transport::rc, 8).total(), 92u);
  EXPECT_EQ(5 * ib(Verb::read, Transport::rc, 8).total() + ib(Verb::cas, Transport::rc, 8).total(), 492u);
  EXPECT_EQ(ib(Verb::read, Transport::rc, 152).total(), 224u);
  EXPECT_EQ(ib(Verb::read, Transport::rc, 8).total() + ib(Verb::read, Transport::rc, 16'544).total(),
            16'804u);
  EXPECT_EQ(ib(Verb::write, Transport::rc, 144).total(), 216u);
  EXPECT_EQ(ib(Verb::write, Transport::rc, 16'392).total() + 216, 16'784u);
  EXPECT_EQ(ib(Verb::write, Transport::uc, 16).total(), 58u);
  EXPECT_EQ(ib(Verb::send, Transport::ud, 32).total(), 66u);
  EXPECT_EQ(ib(Verb::read, Transport::rc, 64).response, 30u + 64);
}

TEST(Wire, EthernetHeadersReplaceTheLinkHeaders) {
  EXPECT_EQ(wire_bytes(Verb::write, Transport::uc, 0, 1024, LinkFormat::roce_v1).request, 74u + 16);
  EXPECT_EQ(wire_bytes(Verb::write, Transport::uc, 0, 1024, LinkFormat::roce_v2).request, 62u + 16);
}

}  // namespace
}  // namespace loch::fabric
