// Tests Capabilities::untorn_bytes: torn messages move in whole aligned lines, wherever they begin.
#include <algorithm>
#include <cstring>

#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

// a message in six 64-byte lines, which fills the first and the last one only in part
constexpr std::uint32_t wide_begin = 4096 + 40, wide_length = 300;

struct Seen {
  std::uint32_t torn_lines = 0, torn_messages = 0;
};

coro::Task<void> write_patterns(TestCluster* cluster, bool* is_over) {
  Worker& self = *cluster->clients[0];
  for (int round = 1; round <= 60; ++round) {
    const LocalSlice from = cluster->at(0, 0);
    std::memset(from.data(), round, wide_length);
    const Completion done = co_await self.write(cluster->remote[1], wide_begin, from, wide_length);
    EXPECT_TRUE(done.ok());
    co_await self.sleep_until(self.now() + 5'000);
  }
  *is_over = true;
}

coro::Task<void> look(TestCluster* cluster, const bool* is_over, Seen* seen) {
  Worker& self = *cluster->clients[1];
  const std::byte* memory = cluster->memory[1]->at(0);
  while (!*is_over) {
    for (std::uint32_t line = wide_begin / 64 * 64; line < wide_begin + wide_length; line += 64) {
      const std::uint32_t from = std::max(line, wide_begin),
                          to = std::min(line + 64, wide_begin + wide_length);
      for (std::uint32_t at = from; at < to; ++at) seen->torn_lines += memory[at] != memory[from] ? 1 : 0;
    }
    seen->torn_messages += memory[wide_begin] != memory[wide_begin + wide_length - 1] ? 1 : 0;
    co_await self.sleep_until(self.now() + 97);
  }
}

TEST(SimLines, AnAlignedLineIsPlacedAtOnce) {
  SimConfig config = small_config();
  config.faults.torn_write = 1;
  config.faults.torn_chunks = 4;
  TestCluster cluster(config);
  EXPECT_EQ(cluster.fabric->capabilities().untorn_bytes, 64u);
  bool is_over = false;
  Seen seen;
  cluster.fabric->start(*cluster.clients[0], write_patterns(&cluster, &is_over));
  cluster.fabric->start(*cluster.clients[1], look(&cluster, &is_over, &seen));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(seen.torn_lines, 0u);
  EXPECT_GT(seen.torn_messages, 20u);
}

// A message that is smaller than a line but lies in two lines: 53 bytes, such as a bucket of Pilaf's.
constexpr std::uint32_t small_begin = 4096 + 40, small_length = 53;

// Overwrites the whole message at one instant, again and again, by the CPU of its node.
coro::Task<void> change(TestCluster* cluster, const bool* is_over) {
  Worker& self = *cluster->clients[1];
  for (int round = 1; !*is_over; ++round) {
    std::memset(cluster->memory[1]->at(small_begin), round, small_length);
    co_await self.sleep_until(self.now() + 300);
  }
}

coro::Task<void> read_small(TestCluster* cluster, bool* is_over, Seen* seen) {
  Worker& self = *cluster->clients[0];
  const LocalSlice to = cluster->at(0, small_begin);
  const std::byte* bytes = to.data();
  constexpr std::uint32_t first = 64 - small_begin % 64;  // bytes of the message in its first line
  for (int round = 0; round < 400; ++round) {
    const Completion done = co_await self.read(cluster->remote[1], small_begin, to, small_length);
    EXPECT_TRUE(done.ok());
    for (std::uint32_t at = 0; at < first; ++at) seen->torn_lines += bytes[at] != bytes[0] ? 1 : 0;
    for (std::uint32_t at = first; at < small_length; ++at)
      seen->torn_lines += bytes[at] != bytes[first] ? 1 : 0;
    seen->torn_messages += bytes[0] != bytes[small_length - 1] ? 1 : 0;
  }
  *is_over = true;
}

TEST(SimLines, AReadOfLessThanALineTearsWhereItLiesInTwo) {
  SimConfig config = small_config();
  config.faults.torn_read = 1;
  TestCluster cluster(config);
  bool is_over = false;
  Seen seen;
  cluster.fabric->start(*cluster.clients[0], read_small(&cluster, &is_over, &seen));
  cluster.fabric->start(*cluster.clients[1], change(&cluster, &is_over));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(seen.torn_lines, 0u);
  EXPECT_GT(seen.torn_messages, 20u);
}

// Counts how often the buffer of a READ in progress holds a torn message: a response is placed line by line.
coro::Task<void> watch_landing(TestCluster* cluster, const bool* is_over, Seen* seen) {
  Worker& self = *cluster->clients[2];
  const std::byte* bytes = cluster->memory[0]->at(small_begin);
  while (!*is_over) {
    seen->torn_messages += bytes[0] != bytes[small_length - 1] ? 1 : 0;
    co_await self.sleep_until(self.now() + 97);
  }
}

TEST(SimLines, ALandingOfLessThanALineTearsWhereItLiesInTwo) {
  SimConfig config = small_config(3);
  config.faults.torn_landing = 1;
  TestCluster cluster(config);
  bool is_over = false;
  Seen seen, landing;
  cluster.fabric->start(*cluster.clients[0], read_small(&cluster, &is_over, &seen));
  cluster.fabric->start(*cluster.clients[1], change(&cluster, &is_over));
  cluster.fabric->start(*cluster.clients[2], watch_landing(&cluster, &is_over, &landing));
  ASSERT_EQ(cluster.fabric->run().value(), RunEnd::finished);
  EXPECT_EQ(seen.torn_messages, 0u);  // once a READ has completed, all its lines are from one fetch
  EXPECT_GT(landing.torn_messages, 20u);
}

}  // namespace
}  // namespace loch::fabric::sim
