// Tests pings between the nodes of one process over shared memory: what arrives is counted, and what is lost.
#include "common/fabric/ping/pings.h"

#include <gtest/gtest.h>

#include "common/fabric/fault/fault.h"
#include "common/fabric/ping/matrix.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric::ping {
namespace {

Matrix played(std::uint32_t nodes, const FaultConfig& faults) {
  auto shm = shm::make_shm({.nodes = nodes});
  EXPECT_TRUE(shm);
  auto made = inject_faults(std::move(*shm), faults);
  EXPECT_TRUE(made);
  Fabric& fabric = **made;
  const Plan plan{
      .nodes = nodes, .round = 600'000'000, .reply = 2'000'000, .connect = 50'000'000, .drain = 50'000'000};
  std::vector<std::unique_ptr<Player>> players;
  for (NodeId node = 0; node < nodes; ++node) {
    auto player = Player::make(fabric, node, plan);
    EXPECT_TRUE(player);
    players.push_back(std::move(*player));
  }
  EXPECT_TRUE(fabric.exchange(10'000'000'000));
  const Nanos start = players.front()->worker().now() + 20'000'000;
  for (auto& player : players) {
    EXPECT_TRUE(player->join(fabric));
    player->begin_at(start);
    fabric.start(player->worker(), player->play());
  }
  EXPECT_TRUE(fabric.run());
  std::vector<std::optional<NodeSeen>> reports;
  std::vector<std::string> names;
  for (auto& player : players) {
    reports.emplace_back(player->seen());
    names.push_back("n" + std::to_string(names.size()));
  }
  return make_matrix(std::move(names), reports, fabric.capabilities());
}

TEST(Pings, EveryPairAnswersOverEveryTransportAndNothingIsLost) {
  const Matrix matrix = played(3, {});
  for (std::size_t t = 0; t < transports.size(); ++t) {
    for (std::size_t from = 0; from < 3; ++from) {
      for (std::size_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        const Cell& cell = matrix.at(from, to, t);
        EXPECT_TRUE(cell.median_us && *cell.median_us > 0) << from << " to " << to << " over " << t;
        EXPECT_TRUE(cell.rate) << from << " to " << to << " over " << t;
        EXPECT_GT(cell.sent, 20u);
        EXPECT_EQ(cell.arrived, cell.sent) << from << " to " << to << " over " << t;
      }
    }
  }
}

TEST(Pings, LossIsCountedAsItIsInjected) {
  constexpr double injected = 0.2;
  const Matrix matrix = played(2, {.uc_loss = injected, .uc_partial_write = 0.5, .ud_loss = injected});
  for (const std::size_t t : {1u, 2u}) {
    std::uint64_t sent = 0, arrived = 0;
    for (const auto [from, to] : {std::pair{0, 1}, std::pair{1, 0}}) {
      sent += matrix.at(from, to, t).sent;
      arrived += matrix.at(from, to, t).arrived;
    }
    ASSERT_GT(sent, 100u);
    EXPECT_NEAR(1 - static_cast<double>(arrived) / static_cast<double>(sent), injected, 0.12) << t;
  }
  EXPECT_TRUE(matrix.at(0, 1, 0).median_us) << "RC";
}

}  // namespace
}  // namespace loch::fabric::ping
