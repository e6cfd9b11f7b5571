// Tests which hosts and pairs the verdict on a matrix of pings names for given reports of the nodes.
#include "common/fabric/ping/matrix.h"

#include <gtest/gtest.h>

namespace loch::fabric::ping {
namespace {

constexpr std::size_t uc = 1;
constexpr double slow = 5;

struct Cluster {
  std::vector<std::string> names = {"n0", "n1", "n2", "n3"};
  std::vector<std::optional<NodeSeen>> reports;
  Capabilities can;

  Cluster() {
    for (NodeId node = 0; node < names.size(); ++node) {
      NodeSeen seen{.node = node, .of = {}};
      seen.of.resize(names.size());
      for (NodeId peer = 0; peer < names.size(); ++peer) {
        if (peer == node) continue;
        seen.of[peer].fill({.pings = 100,
                            .replies = 100,
                            .median = 2'000,
                            .messages = 900,
                            .bursts = 1'000'000,
                            .arrived = 1000});
      }
      reports.emplace_back(std::move(seen));
    }
  }
  Seen& at(NodeId from, NodeId to, std::size_t transport) { return reports[from]->of[to][transport]; }
  [[nodiscard]] Matrix matrix() const { return make_matrix(names, reports, can); }
  [[nodiscard]] std::vector<Finding> judged() const { return judge(matrix(), slow); }
};

TEST(PingMatrix, NothingStandsOutInAHealthyCluster) {
  const Cluster cluster;
  EXPECT_TRUE(cluster.judged().empty());
  const Matrix matrix = cluster.matrix();
  const Cell& cell = matrix.at(0, 1, uc);
  EXPECT_EQ(cell.median_us, 2.0);
  EXPECT_EQ(cell.rate, 900'000.0);
  EXPECT_EQ(cell.loss, 0.0);
  EXPECT_FALSE(matrix.at(1, 1, uc).is_there);
  EXPECT_FALSE(matrix.at(0, 1, 0).loss) << "RC loses nothing that a program could see";
}

TEST(PingMatrix, ASenderThatLosesIsNamedAndNotItsPairs) {
  Cluster cluster;
  for (const NodeId to : {0, 1, 3}) cluster.at(to, 2, uc).arrived = 950;
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FindingKind::loss);
  EXPECT_TRUE(found[0].is_fault);
  EXPECT_EQ(found[0].hosts, std::vector<std::string>{"n2"});
  EXPECT_EQ(found[0].text, "5 % of the UC messages that n2 sends are lost (150 of 3000)");
}

TEST(PingMatrix, AReceiverThatLosesIsNamed) {
  Cluster cluster;
  for (const NodeId from : {0, 1, 3}) cluster.at(2, from, uc).arrived = 995;
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].is_fault) << "half a percent is worth a look, and no fault";
  EXPECT_EQ(found[0].text, "0.5 % of the UC messages that n2 receives are lost (15 of 3000)");
}

TEST(PingMatrix, LossOfManyHostsNamesTheWorstPair) {
  Cluster cluster;
  cluster.at(1, 0, uc).arrived = 900;  // of the 1,000 messages that node 0 sent to node 1
  cluster.at(3, 2, uc).arrived = 920;  // of the 1,000 messages that node 2 sent to node 3
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].hosts, (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(found[0].text,
            "10 % of the UC messages from n0 to n1 are lost (100 of 1000); 180 of 12000 over all pairs, 2 of "
            "which lose some");
}

TEST(PingMatrix, AHostThatNobodyReachesIsNamedOnceATransport) {
  Cluster cluster;
  for (const NodeId peer : {0, 1, 2}) {
    for (std::size_t t = 0; t < transports.size(); ++t) {
      cluster.at(3, peer, t) = {.pings = 10};
      cluster.at(peer, 3, t) = {.pings = 10};
    }
  }
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), transports.size());
  for (const Finding& each : found) {
    EXPECT_EQ(each.kind, FindingKind::unreachable);
    EXPECT_EQ(each.hosts, std::vector<std::string>{"n3"});
  }
}

TEST(PingMatrix, AnUnreachablePairIsNamedByItsDirection) {
  Cluster cluster;
  cluster.at(0, 1, uc) = {.pings = 10, .messages = 90};
  cluster.at(1, 0, uc).arrived = 0;
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, "n0 does not reach n1 over UC");
}

TEST(PingMatrix, APairThatHadNoTurnIsNotCalledUnreachable) {
  Cluster cluster;
  cluster.at(0, 1, uc) = {};
  cluster.at(1, 0, uc).arrived = 0;
  EXPECT_TRUE(cluster.judged().empty());
}

TEST(PingMatrix, AHostWithoutAReportIsSilentAndItsPairsAreNotNamed) {
  Cluster cluster;
  cluster.reports[2].reset();
  const auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, FindingKind::silent);
  EXPECT_EQ(found[0].text, "n2 gave no answer");
  EXPECT_FALSE(cluster.matrix().at(0, 2, uc).loss) << "nobody counted what arrived";
}

TEST(PingMatrix, ASlowHostAndASlowPairAreNamed) {
  Cluster cluster;
  cluster.at(0, 1, uc).median = 30'000;
  auto found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].is_fault);
  EXPECT_EQ(found[0].text, "the round trip from n0 to n1 over UC takes 30 us, 15.0 times the median of 2 us");
  for (const NodeId peer : {0, 1, 2}) {
    cluster.at(peer, 3, uc).median = 40'000;
    cluster.at(3, peer, uc).median = 40'000;
  }
  cluster.at(0, 1, uc).median = 2'000;
  // Of the twelve pairs, the six with node 3 are slow; one of them becomes fast, so that the median over all
  // pairs is a fast one's.
  cluster.at(3, 0, uc).median = 2'000;
  found = cluster.judged();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].hosts, std::vector<std::string>{"n3"});
}

TEST(PingMatrix, ATransportThatDevicesLackIsADash) {
  Cluster cluster;
  cluster.can.uc = false;
  EXPECT_TRUE(cluster.judged().empty());
  EXPECT_NE(to_table(cluster.matrix()).find("UC: -"), std::string::npos);
  EXPECT_EQ(to_table(cluster.matrix()).find("UC: round trip"), std::string::npos);
}

TEST(PingReport, IsReadAsItWasWritten) {
  const Cluster cluster;
  const auto read = parse_seen(to_text(*cluster.reports[1]), 4);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *cluster.reports[1]);
}

TEST(PingReport, MalformedTextIsRefused) {
  for (const char* text : {"", "{}", R"({"node":4,"of":[]})", R"({"node":0,"of":[[],[],[],[]]})",
                           R"({"node":0,"of":[[[1,2,3]]]})", R"({"node":-1,"of":[]})"}) {
    EXPECT_FALSE(parse_seen(text, 4)) << text;
  }
}

}  // namespace
}  // namespace loch::fabric::ping
