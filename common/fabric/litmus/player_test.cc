// Tests the litmus suite between two nodes of one process: on shared memory, on the simulation, and with a
// node that does not answer.
#include "common/fabric/litmus/player.h"

#include <gtest/gtest.h>

#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"

namespace loch::fabric::litmus {
namespace {

constexpr Nanos second = 1'000'000'000;

std::vector<Race> all_races() {
  std::vector<Race> races;
  for (std::size_t i = 0; i < races_count; ++i) races.push_back(static_cast<Race>(i));
  return races;
}

struct Played {
  std::vector<Row> rows;
  std::vector<std::string> faults;
};

Played play(Fabric& fabric, const Plan& plan) {
  std::vector<std::unique_ptr<Player>> players;
  for (const NodeId node : {NodeId{0}, NodeId{1}}) {
    auto player = Player::make(fabric, node, plan);
    EXPECT_TRUE(player);
    players.push_back(std::move(*player));
  }
  EXPECT_TRUE(fabric.exchange(10 * second));
  for (auto& player : players) EXPECT_TRUE(player->start(fabric));
  const auto end = fabric.run();
  EXPECT_TRUE(end && *end == RunEnd::finished);
  Played played;
  for (std::size_t i = 0; i < plan.races.size(); ++i)
    played.rows.push_back(judge(plan.races[i], players[0]->seen()[i], fabric.capabilities()));
  for (auto& player : players) played.faults.push_back(player->fault());
  return played;
}

TEST(Litmus, EveryRaceIsTriedOnSharedMemoryAndNoClaimViolated) {
  auto fabric = shm::make_shm({.nodes = 2});
  ASSERT_TRUE(fabric);
  const Played played = play(**fabric, {.races = all_races(), .time = second / 2, .tries = 300});
  for (const Row& row : played.rows) {
    EXPECT_GE(row.tries, 20u) << name(row.race);
    EXPECT_TRUE(row.verdict == Verdict::as_claimed || row.verdict == Verdict::not_seen) << name(row.race);
  }
  EXPECT_EQ(played.faults, (std::vector<std::string>{"", ""}));
}

TEST(Litmus, TheSimulationKeepsItsClaims) {
  sim::SimConfig config;
  config.nodes = 2;
  config.hardware = *sim::load_hardware("connectx3-10gbe");
  auto fabric = sim::make_sim(config);
  ASSERT_TRUE(fabric);
  const Played played = play(**fabric, {.races = all_races(), .time = second, .tries = 500});
  EXPECT_EQ(played.faults, (std::vector<std::string>{"", ""}));
  for (const Row& row : played.rows) {
    EXPECT_GE(row.tries, 500u) << name(row.race);
    EXPECT_NE(row.verdict, Verdict::violated) << name(row.race);
    EXPECT_NE(row.verdict, Verdict::not_tried) << name(row.race);
  }
  // In the simulation the CPU stores one cache line at a time and a READ fetches lines at different instants,
  // so a line is the longest part of the block that is never torn.
  EXPECT_EQ(played.rows[0].unit, 64u);
}

TEST(Litmus, TheSimulationsFaultsAreFoundWhereTheyAre) {
  sim::SimConfig config;
  config.nodes = 2;
  config.hardware = *sim::load_hardware("connectx3-10gbe");
  config.faults.split_atomics = true;
  config.faults.late_write = 0.5;
  auto fabric = sim::make_sim(config);
  ASSERT_TRUE(fabric);
  const Played played = play(**fabric, {.races = all_races(), .time = second, .tries = 500});
  for (const Row& row : played.rows) {
    const bool is_faulty = row.race == Race::cas_cpu || row.race == Race::at_completion;
    EXPECT_EQ(row.seen > 0, is_faulty) << name(row.race);
    EXPECT_NE(row.verdict, Verdict::violated) << name(row.race);
  }
}

TEST(Litmus, ANodeThatDoesNotFollowEndsTheRaces) {
  auto fabric = shm::make_shm({.nodes = 2});
  ASSERT_TRUE(fabric);
  // Node 1 gets a plan without litmus tests (races), so it ends at once and answers nothing.
  const Plan plan{.races = {Race::write_write}, .time = second / 10, .tries = 10, .patience = second / 5};
  auto leader = Player::make(**fabric, 0, plan);
  auto other = Player::make(**fabric, 1, {.races = {}});
  ASSERT_TRUE(leader && other);
  ASSERT_TRUE((*fabric)->exchange(10 * second));
  ASSERT_TRUE((*leader)->start(**fabric) && (*other)->start(**fabric));
  EXPECT_TRUE((*fabric)->run());
  EXPECT_EQ((*leader)->fault(), "write-write: node 1 gives no answer");
}

}  // namespace
}  // namespace loch::fabric::litmus
