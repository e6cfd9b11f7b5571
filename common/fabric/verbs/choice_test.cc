// Tests of the choice of device, port, GID and partition, on tables of hosts as they occur in clusters.
#include "common/fabric/verbs/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

GidEntry ip(std::uint32_t index, std::array<std::uint8_t, 4> address, std::uint32_t bits = 24,
            GidKind kind = GidKind::roce_v2, bool is_vlan = false) {
  GidEntry entry{.index = index, .gid = {}, .kind = kind, .prefix_bits = bits, .is_vlan = is_vlan};
  entry.gid[10] = entry.gid[11] = 0xff;
  std::ranges::copy(address, entry.gid.begin() + 12);
  return entry;
}

GidEntry subnet(std::uint8_t number, std::uint8_t port = 1) {
  return {.index = 0,
          .gid = {0xfe, 0x80, 0, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, port},
          .kind = GidKind::infiniband};
}

PortOffer roce(std::string device, double gigabits, std::vector<GidEntry> gids) {
  return {.device = std::move(device), .is_roce = true, .gigabits = gigabits, .gids = std::move(gids)};
}

PortOffer infiniband(std::string device, double gigabits, std::uint8_t number = 0) {
  return {.device = std::move(device), .gigabits = gigabits, .gids = {subnet(number)}};
}

std::string refusal(const std::vector<HostOffer>& hosts) {
  const auto chosen = choose_ports(hosts);
  return chosen ? "chosen: " + chosen->front().device : chosen.error().message;
}

std::vector<std::string> devices(const std::vector<HostOffer>& hosts) {
  const auto chosen = choose_ports(hosts);
  EXPECT_TRUE(chosen) << chosen.error().message;
  std::vector<std::string> names;
  for (const Chosen& one : chosen.value_or(std::vector<Chosen>())) names.push_back(one.device);
  return names;
}

TEST(Choice, AloneAHostUsesItsFastestPortAndTheFirstAmongEquals) {
  EXPECT_EQ(
      devices({{"n1", {}, {roce("a", 25, {ip(0, {10, 0, 0, 1})}), roce("b", 100, {ip(0, {10, 1, 0, 1})})}}}),
      std::vector<std::string>{"b"});
  EXPECT_EQ(
      devices({{"n1", {}, {roce("b", 25, {ip(0, {10, 0, 0, 1})}), roce("a", 25, {ip(0, {10, 1, 0, 1})})}}}),
      std::vector<std::string>{"a"});
}

// If a host's first device cannot be used, its next device is chosen.
TEST(Choice, WhatCannotBeUsedIsPassedOver) {
  PortOffer iwarp = roce("iw0", 100, {ip(0, {10, 0, 0, 1})});
  iwarp.refusal = "is an iWARP device's";
  EXPECT_EQ(devices({{"n1", {}, {iwarp, roce("mlx5_0", 25, {ip(0, {10, 1, 0, 1})})}}}),
            std::vector<std::string>{"mlx5_0"});
  EXPECT_THAT(refusal({{"n1", {}, {iwarp}}}),
              AllOf(HasSubstr("n1"), HasSubstr("iw0 port 1 is an iWARP device's")));
  EXPECT_THAT(refusal({{"n1", {}, {}}}), HasSubstr("no RDMA device"));
}

// On Azure HB and HC hosts it is random which of mlx5_0 and mlx5_1 is the InfiniBand device.
TEST(Choice, HostsWhoseDevicesHaveOtherOrdersMeetOnOneNetwork) {
  const auto ethernet = [](const char* name, std::uint8_t host) {
    return roce(name, 50, {ip(1, {10, 0, 0, host})});
  };
  EXPECT_EQ(devices({{"n1", {}, {ethernet("mlx5_0", 1), infiniband("mlx5_1", 200)}},
                     {"n2", {}, {infiniband("mlx5_0", 200), ethernet("mlx5_1", 2)}}}),
            (std::vector<std::string>{"mlx5_1", "mlx5_0"}));
}

// On CloudLab, the control network has public addresses and uses a NIC of the same kind and rate as the
// experiment's network, which has private ones.
TEST(Choice, APrivateNetworkComesBeforeAPublicOne) {
  EXPECT_EQ(devices({{"n1",
                      {},
                      {roce("mlx5_0", 25, {ip(1, {128, 110, 219, 1}, 21)}),
                       roce("mlx5_1", 25, {ip(1, {10, 10, 1, 1})})}},
                     {"n2",
                      {},
                      {roce("mlx5_0", 25, {ip(1, {128, 110, 219, 9}, 21)}),
                       roce("mlx5_1", 25, {ip(1, {10, 10, 1, 2})})}}}),
            (std::vector<std::string>{"mlx5_1", "mlx5_1"}));
}

// Of several networks, the one whose slowest host is fastest is chosen, even if it is not the fastest network
// of the first host.
TEST(Choice, TheSlowestHostDecidesBetweenNetworks) {
  EXPECT_EQ(
      devices(
          {{"n1", {}, {roce("fast", 200, {ip(0, {10, 1, 0, 1})}), roce("slow", 100, {ip(0, {10, 2, 0, 1})})}},
           {"n2", {}, {roce("one", 25, {ip(0, {10, 1, 0, 2})}), roce("two", 100, {ip(0, {10, 2, 0, 2})})}}}),
      (std::vector<std::string>{"slow", "two"}));
}

// The GIDs that the two hosts would choose independently are in different subnets, so each host uses its GID
// in their common subnet.
TEST(Choice, GidsOfOneSubnetAreTakenThoughOthersComeFirst) {
  const std::vector<HostOffer> hosts = {
      {"n1", {}, {roce("a", 100, {ip(2, {10, 5, 0, 1}), ip(3, {10, 9, 0, 1})})}},
      {"n2", {}, {roce("a", 100, {ip(1, {10, 9, 0, 2}), ip(4, {10, 7, 0, 2})})}}};
  const auto chosen = choose_ports(hosts);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->at(0).gid->index, 3u);
  EXPECT_EQ(chosen->at(1).gid->index, 1u);
  EXPECT_EQ(chosen->at(0).network, "RoCE v2, 10.9.0.0/24");
}

TEST(Choice, AnInterfaceWithoutAVlanComesFirstAndRoceV2BeforeV1) {
  const std::vector<HostOffer> hosts = {
      {"n1",
       {},
       {roce("a", 100,
             {ip(0, {10, 1, 0, 1}, 24, GidKind::roce_v1), ip(1, {10, 3, 0, 1}, 24, GidKind::roce_v2, true),
              ip(2, {10, 4, 0, 1})})}}};
  EXPECT_EQ(choose_ports(hosts)->front().gid->index, 2u);
}

TEST(Choice, RoutedHostsOfRoceV2AreOneNetwork) {
  const std::vector<HostOffer> hosts = {{"n1", {}, {roce("a", 100, {ip(0, {10, 1, 0, 1})})}},
                                        {"n2", {}, {roce("a", 100, {ip(0, {10, 2, 0, 1})})}}};
  ASSERT_TRUE(choose_ports(hosts));
  EXPECT_EQ(choose_ports(hosts)->front().network, "RoCE v2, routed");
}

TEST(Choice, HostsWithoutACommonNetworkAreToldWhoHasWhat) {
  EXPECT_EQ(refusal({{"n1", {}, {infiniband("mlx5_0", 100)}},
                     {"n2", {}, {roce("mlx5_0", 100, {ip(0, {10, 1, 0, 1})})}}}),
            "verbs: no network that all hosts have a port in (--device chooses)\n"
            "  hosts  port           networks\n"
            "  n1     mlx5_0 port 1  InfiniBand, fe80::/64\n"
            "  n2     mlx5_0 port 1  RoCE v2, 10.1.0.0/24");
  const auto routed = [](const char* host) {
    return HostOffer{
        host, {}, {roce("mlx5_0", 100, {ip(0, {10, 1, 0, 1}), ip(1, {10, 1, 0, 1}, 24, GidKind::roce_v1)})}};
  };
  EXPECT_EQ(
      refusal(
          {routed("n1"), {"n2", {}, {infiniband("mlx5_0", 100), infiniband("mlx5_1", 100)}}, routed("n3")}),
      "verbs: no network that all hosts have a port in (--device chooses)\n"
      "  hosts  port           networks\n"
      "  n1 n3  mlx5_0 port 1  RoCE v2, 10.1.0.0/24; RoCE v1, 10.1.0.0/24\n"
      "  n2     mlx5_0 port 1  InfiniBand, fe80::/64\n"
      "         mlx5_1 port 1  InfiniBand, fe80::/64");
}

TEST(Choice, ADeviceIsNamedForAllHostsOrForOneOrBySubnet) {
  const auto host = [](const char* name, const std::string& device) {
    return HostOffer{name,
                     {.device = device},
                     {roce("a", 100, {ip(0, {10, 1, 0, 1})}), roce("b", 50, {ip(0, {10, 2, 0, 1})}),
                      roce("c", 50, {ip(0, {10, 2, 0, 9})})}};
  };
  const auto with = [&](const std::string& device) {
    return devices({host("n1", device), host("n2", device)});
  };
  EXPECT_EQ(with(""), (std::vector<std::string>{"a", "a"}));
  EXPECT_EQ(with("b"), (std::vector<std::string>{"b", "b"}));
  EXPECT_EQ(with("n1=b,n2=c"), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(with("b,n2=c"), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(with("10.2.0.0/16"), (std::vector<std::string>{"b", "b"}));
  EXPECT_EQ(refusal({host("n1", "d")}), "--device d: no such device on n1; there are: a, b, c");
  EXPECT_THAT(refusal({host("n1", "10.3.0.0/16")}),
              HasSubstr("--device 10.3.0.0/16: no port of n1 can be used"));
  EXPECT_THAT(refusal({host("n1", "10.3.0.0/99")}), HasSubstr("expected names of devices"));
  EXPECT_THAT(refusal({host("n1", "a,,b")}), HasSubstr("expected names of devices"));
}

// ---- Several rails -------------------------------------------------------------------------------

// A host with two RoCE ports in 10.1.0.0/24 and 10.2.0.0/24, and a second port of the device b in
// 10.3.0.0/24.
HostOffer three_ports(const std::string& name, std::uint8_t number, const std::string& device) {
  HostOffer host{name,
                 {.device = device},
                 {roce("a", 100, {ip(0, {10, 1, 0, number})}), roce("b", 100, {ip(0, {10, 2, 0, number})}),
                  roce("b", 100, {ip(0, {10, 3, 0, number})})}};
  host.ports.back().number = 2;
  return host;
}

// The ports of two hosts by rail, such as "a1 b1": the first host's, then the second host's.
std::vector<std::string> rails(const std::vector<HostOffer>& hosts) {
  const auto chosen = choose_rails(hosts);
  if (!chosen) return {chosen.error().message};
  std::vector<std::string> all;
  for (const std::vector<Chosen>& rail : *chosen) {
    std::string text;
    for (const Chosen& one : rail) text += (text.empty() ? "" : " ") + one.device + std::to_string(one.port);
    all.push_back(text);
  }
  return all;
}

std::vector<std::string> rails(const std::string& device) {
  return rails(std::vector{three_ports("n1", 1, device), three_ports("n2", 2, device)});
}

using Texts = std::vector<std::string>;

TEST(Rails, ThereIsOneUnlessSeveralAreNamed) {
  EXPECT_EQ(rails(""), (Texts{"a1 a1"}));
  EXPECT_EQ(rails("a,b"), (Texts{"a1 a1"}));
  EXPECT_EQ(rails("a+b:1"), (Texts{"a1 a1", "b1 b1"}));
  EXPECT_EQ(rails("b:2"), (Texts{"b2 b2"}));
  EXPECT_EQ(rails("b:2+b:1+a"), (Texts{"b2 b2", "b1 b1", "a1 a1"}));
  EXPECT_EQ(rails("10.3.0.0/16+10.1.0.0/16"), (Texts{"b2 b2", "a1 a1"}));
}

TEST(Rails, EachHostMayHaveItsOwn) {
  EXPECT_EQ(rails("a+b:1,n2=a+b:1"), (Texts{"a1 a1", "b1 b1"}));
  EXPECT_EQ(rails("n1=b:2+a,n2=b:2+a"), (Texts{"b2 b2", "a1 a1"}));
}

// Named in other orders, rails meet by their networks, although hosts with RoCE v2 could route.
TEST(Rails, AreConnectedByNetworkWhereTheirOrderDoesNotFit) {
  EXPECT_EQ(rails("n1=a+b:1,n2=b:1+a"), (Texts{"a1 a1", "b1 b1"}));
  EXPECT_EQ(rails("n1=b:1+a+b:2,n2=b:2+b:1+a"), (Texts{"b1 b1", "a1 a1", "b2 b2"}));
}

// Every RoCE port has a link-local address too, whose prefix is the same in all networks.
TEST(Rails, AreNotConnectedByLinkLocalAddressesThatAllHave) {
  std::vector<HostOffer> hosts = {three_ports("n1", 1, "a+b:1"), three_ports("n2", 2, "b:1+a")};
  for (HostOffer& host : hosts) {
    for (PortOffer& port : host.ports) {
      GidEntry local = subnet(0, port.gids.front().gid[15]);
      local.index = 1;
      local.kind = GidKind::roce_v2;
      port.gids.push_back(local);
    }
  }
  EXPECT_EQ(rails(hosts), (Texts{"a1 a1", "b1 b1"}));
  EXPECT_EQ(choose_rails(hosts)->at(1).front().network, "RoCE v2, 10.2.0.0/24");
  for (HostOffer& host : hosts) {
    for (PortOffer& port : host.ports) port.gids.erase(port.gids.begin());
  }
  EXPECT_EQ(rails(hosts), (Texts{"a1 b1", "b1 a1"}));
}

TEST(Rails, OfNetworksThatNotAllHostsHaveAreRouted) {
  const std::vector<HostOffer> hosts = {three_ports("n1", 1, "a+b:1"), three_ports("n2", 2, "a+b:2")};
  EXPECT_EQ(rails(hosts), (Texts{"a1 a1", "b1 b2"}));
  EXPECT_EQ(choose_rails(hosts)->at(1).front().network, "RoCE v2, routed");
}

TEST(Rails, ThatCannotBeConnectedAreRefusedInOneLine) {
  EXPECT_EQ(rails("n1=a+b:1,n2=a"),
            (Texts{"--device: n1 has 2 rails and n2 has 1; expected equally many on each host"}));
  EXPECT_EQ(rails("a+b,b"),
            (Texts{"--device a+b,b: entries with 2 and 1 rails for n1; expected equally many"}));
  EXPECT_EQ(rails("b+b"), (Texts{"--device b+b: two rails of n1 are port 1 of b (NAME:PORT names a port)"}));
  EXPECT_EQ(rails("a+d"), (Texts{"--device a+d: no such device on n1; there are: a, b"}));
  EXPECT_EQ(rails("a+b+a+b+a+b+a+b+a"), (Texts{"--device a+b+a+b+a+b+a+b+a: at most 8 rails"}));
  for (const char* text : {"a+", "+a", "a:0", "a:256", "a:x", ":1"})
    EXPECT_THAT(rails(text).front(), HasSubstr("expected names of devices")) << text;
  std::vector<HostOffer> hosts = {three_ports("n1", 1, "a+i"), three_ports("n2", 2, "a+i")};
  for (HostOffer& host : hosts) host.ports.push_back(infiniband("i", 100));
  EXPECT_EQ(rails(hosts),
            (Texts{"--device a+i: the rails of n1 are unlike: a is in RoCE v2, 10.1.0.0/24, i in InfiniBand, "
                   "fe80::/64"}));
  hosts[1].wish.device = "a+b";
  EXPECT_EQ(rails(hosts), (Texts{"verbs: no 2 networks in each of which all hosts have a rail\n"
                                 "  hosts  port      networks\n"
                                 "  n1     a port 1  RoCE v2, 10.1.0.0/24\n"
                                 "         i port 1  InfiniBand, fe80::/64\n"
                                 "  n2     a port 1  RoCE v2, 10.1.0.0/24\n"
                                 "         b port 1  RoCE v2, 10.2.0.0/24\n"
                                 "         b port 2  RoCE v2, 10.3.0.0/24"}));
}

// Each rail is in a partition of its own network.
TEST(Rails, EachHasAPartition) {
  std::vector<HostOffer> hosts;
  for (const char* name : {"n1", "n2"}) {
    hosts.push_back({name, {.device = "a+b"}, {infiniband("a", 100, 1), infiniband("b", 100, 2)}});
    hosts.back().ports[0].pkeys = {0x7fff, 0x8001};
    hosts.back().ports[1].pkeys = {0x8002};
  }
  const auto chosen = choose_rails(hosts);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->at(0).at(1).pkey, 0x8001);
  EXPECT_EQ(chosen->at(0).at(1).pkey_index, 1);
  EXPECT_EQ(chosen->at(1).at(1).pkey, 0x8002);
}

TEST(Choice, APortOrAGidIndexThatIsNotThereIsNamed) {
  EXPECT_THAT(refusal({{"n1", {.port = 2}, {infiniband("a", 100)}}}),
              HasSubstr("--port 2: no port of n1 can be used: there is a port 1"));
  EXPECT_THAT(refusal({{"n1", {.gid_index = 7}, {infiniband("a", 100)}}}),
              HasSubstr("--gid-index 7: no port of n1 can be used: a port 1 has the GIDs 0"));
  EXPECT_THAT(
      refusal({{"n1", {.gid_index = 7}, {roce("a", 100, {ip(1, {10, 0, 0, 1}), ip(3, {10, 1, 0, 1})})}}}),
      HasSubstr("a port 1 has the GIDs 1, 3"));
}

TEST(Choice, ThePartitionIsOneOfWhichAllAreFullMembers) {
  PortOffer one = infiniband("a", 100), two = infiniband("a", 100);
  one.pkeys = {0x7fff, 0x8001, 0x8002};  // 0x7fff: limited member of the default partition, as on Azure
  two.pkeys = {0xffff, 0x8002, 0x0001};
  std::vector<HostOffer> hosts = {{"n1", {}, {one}}, {"n2", {}, {two}}};
  const auto chosen = choose_ports(hosts);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(chosen->at(0).pkey, 0x8002);
  EXPECT_EQ(chosen->at(0).pkey_index, 2);
  EXPECT_EQ(chosen->at(1).pkey_index, 1);
  hosts[0].wish.pkey = hosts[1].wish.pkey = 0x0001;
  EXPECT_EQ(refusal(hosts),
            "--pkey 0x0001: no partition of which all hosts are full members: n1 has 0x7fff, 0x8001, 0x8002; "
            "n2 has "
            "0xffff, 0x8002, 0x0001");
}

TEST(Choice, WithoutATableThePartitionIsTheDefaultOne) {
  EXPECT_EQ(choose_ports(std::vector<HostOffer>{{"n1", {}, {infiniband("a", 100)}}})->front().pkey, 0xffff);
}

TEST(Offer, GoesThereAndBackAndDamageIsNamed) {
  HostOffer offer{"n1", {.device = "a", .port = 1, .gid_index = 3, .pkey = 0x8001}, {infiniband("a", 100)}};
  offer.ports.push_back(roce("b", 25, {ip(2, {10, 0, 0, 1}, 16, GidKind::roce_v1, true)}));
  offer.ports.back().refusal = "is not active";
  offer.ports.front().pkeys = {1, 2};
  const std::string text = to_text(offer);
  ASSERT_TRUE(parse_offer(text)) << parse_offer(text).error().message;
  EXPECT_EQ(*parse_offer(text), offer);
  for (const auto& [from, to] : {std::pair{"\"gigabits\":25.0", "\"gigabits\":-1"},
                                 {"\"kind\":1", "\"kind\":3"},
                                 {"\"prefix\":16", "\"prefix\":33"},
                                 {"\"pkeys\":[1,2]", "\"pkeys\":[70000]"}}) {
    std::string damaged = text;
    const std::size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    damaged.replace(at, std::string_view(from).size(), to);
    EXPECT_FALSE(parse_offer(damaged)) << to;
  }
}

TEST(Offer, ADeviceGoesThereAndBackWithItsPlace) {
  NodeDevice device{.node = 3,
                    .host = "n3",
                    .gid = "::ffff:10.0.0.3",
                    .firmware = "20.31.1014",
                    .driver = "mlx5_core",
                    .numa_node = 1};
  device.can.fabric = "verbs";
  for (const int numa_node : {1, -1}) {
    device.numa_node = numa_node;
    const auto back = parse_device(to_text(device));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, device);
  }
  std::string damaged = to_text(device);
  const std::string_view from = "\"numa_node\":null";
  ASSERT_NE(damaged.find(from), std::string::npos);
  damaged.replace(damaged.find(from), from.size(), "\"numa_node\":-7");
  EXPECT_FALSE(parse_device(damaged));
}

}  // namespace
}  // namespace loch::fabric::verbs
