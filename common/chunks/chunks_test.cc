// Tests allocation in chunks (runs of blocks that a client requests from a node's manager): which chunk a
// manager gives to which client, and clients of RACE hashing that get their blocks this way, also when
// requests fail and when a node has no block left.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/chunks/free_blocks.h"
#include "common/chunks/manager.h"
#include "race/module.h"
#include "tests/support/store_cluster.h"
#include "tests/support/store_loads.h"

namespace loch::chunks {
namespace {

using support::make_fabric, support::small_deploy, support::StoreCluster;

ChunkPlan plan_of(std::uint64_t blocks, std::uint32_t chunk, Flaw flaw = Flaw::none) {
  return {.first = 100, .blocks = blocks, .chunk = chunk, .clients = 3, .messages = {}, .flaw = flaw};
}

TEST(FreeBlocks, AreTakenInTheOrderInWhichTheyBecameFree) {
  constexpr std::uint64_t units = 3;
  FreeBlocks blocks;
  std::deque<Block> model;
  Rng rng(1, "free blocks");
  for (std::uint32_t step = 0; step < 2'000; ++step) {
    // 200 steps that mostly take blocks, which empties the list now and then, alternate with 200 that mostly
    // add.
    if (rng.chance(step / 200 % 2 == 0 ? 0.8 : 0.3)) {
      const std::optional<Block> taken = blocks.take_oldest();
      ASSERT_EQ(taken.has_value(), !model.empty());
      if (!taken) continue;
      EXPECT_EQ(taken->number, model.front().number);
      EXPECT_EQ(taken->generation, model.front().generation);
      model.pop_front();
    } else if (rng.chance(0.1)) {
      const std::uint64_t count = rng.below(6);
      blocks.add({step, 0}, count, units);
      for (std::uint64_t i = 0; i < count; ++i) model.push_back({step + i * units, 0});
    } else {
      blocks.add({step, step % 5});
      model.push_back({step, step % 5});
    }
    ASSERT_EQ(blocks.size(), model.size());
    std::deque<std::uint64_t> numbers;
    for (const FreeBlocks::Run& run : blocks.runs()) {
      for (std::uint64_t i = 0; i < run.count; ++i) numbers.push_back(run.first.number + i * run.units);
    }
    EXPECT_TRUE(std::ranges::equal(numbers, model, {}, {}, &Block::number));
  }
}

TEST(Manager, GivesEachBlockOnce) {
  Manager manager(plan_of(10, 4));
  EXPECT_EQ(manager.allocate({0, 1}), (Chunk{100, 4}));
  EXPECT_EQ(manager.allocate({2, 1}), (Chunk{104, 4}));
  EXPECT_EQ(manager.allocate({0, 2}), (Chunk{108, 2}));  // what is left
  EXPECT_EQ(manager.left(), 0u);
  EXPECT_EQ(manager.allocate({1, 1})->count, 0u);
  EXPECT_EQ(manager.counts().given, 3u);
  EXPECT_EQ(manager.counts().full, 1u);
}

// The answer to a request may be lost: the client then repeats the request, and gets the same chunk again.
TEST(Manager, AnswersARepeatedRequestWithItsChunk) {
  Manager manager(plan_of(20, 4));
  EXPECT_EQ(manager.allocate({0, 1}), (Chunk{100, 4}));
  EXPECT_EQ(manager.allocate({1, 1}), (Chunk{104, 4}));
  EXPECT_EQ(manager.allocate({0, 1}), (Chunk{100, 4}));
  EXPECT_EQ(manager.allocate({2, 1}), (Chunk{108, 4}));
  EXPECT_EQ(manager.allocate({0, 2}), (Chunk{112, 4}));
  EXPECT_EQ(manager.counts().repeated, 1u);
}

// A request that the network delayed arrives after the same client's next request: the manager drops it.
TEST(Manager, DropsAnOlderRequest) {
  Manager manager(plan_of(20, 4));
  EXPECT_TRUE(manager.allocate({0, 1}).has_value());
  EXPECT_TRUE(manager.allocate({0, 2}).has_value());
  EXPECT_FALSE(manager.allocate({0, 1}).has_value());
  EXPECT_EQ(manager.counts().stale, 1u);
  EXPECT_EQ(manager.left(), 12u);
}

TEST(Manager, DropsWhatNoClientSends) {
  Manager manager(plan_of(20, 4));
  EXPECT_FALSE(manager.allocate({3, 1}).has_value());
  EXPECT_FALSE(manager.allocate({0, 0}).has_value());
  EXPECT_EQ(manager.counts().malformed, 2u);
  EXPECT_EQ(manager.left(), 20u);
}

TEST(Manager, TheKnownBadOneGivesARepeatedChunkTwice) {
  Manager manager(plan_of(20, 4, Flaw::repeated_is_free));
  EXPECT_EQ(manager.allocate({0, 1}), (Chunk{100, 4}));
  EXPECT_EQ(manager.allocate({0, 1}), (Chunk{100, 4}));
  EXPECT_EQ(manager.allocate({1, 1}), (Chunk{100, 4}));
}

kv::DeployConfig memory_nodes(std::uint64_t keys, std::uint64_t max_keys) {
  kv::DeployConfig config = small_deploy(4, 2, 1, keys);
  config.server_nodes = 2;
  config.max_keys = max_keys;
  return config;
}

std::map<std::string, std::string> chunks_of(const char* blocks) {
  return {{"race.allocation", "chunks"}, {"race.chunk-blocks", blocks}, {"race.spare-blocks", "4"}};
}

class On : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, On, ::testing::Values("sim", "shm"));

// Clients that begin without any block write values that others read, and no two clients get the same block.
TEST_P(On, ClientsOfMemoryNodesGetTheirBlocksFromThem) {
  const auto module = race::make_module();
  for (const char* chunk : {"1", "4", "64"}) {
    StoreCluster cluster(make_fabric(GetParam(), {.nodes = 4}), *module,
                         {.config = memory_nodes(24, 24), .options = chunks_of(chunk)});
    support::Tally tally;
    for (std::size_t w = 0; w < cluster.workers(); ++w)
      cluster.start(w, [&](support::Lane* lane) { return support::work(lane, 24, 500, &tally); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(tally.torn, 0u) << chunk;
    EXPECT_EQ(tally.foreign, 0u) << chunk;
    EXPECT_LT(tally.other, 25u * cluster.workers()) << chunk;
    EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{}) << chunk;
    // at least one ALLOC request from each of the four clients to each of the two nodes
    EXPECT_GE(cluster.counter("allocs"), 8) << chunk;
    EXPECT_EQ(cluster.counter("chunks_given"), cluster.counter("allocs")) << chunk;
    EXPECT_EQ(cluster.counter("allocs_unanswered"), 0) << chunk;
  }
}

coro::Task<void> insert(support::Lane* lane, std::uint64_t first, std::uint64_t count, std::uint64_t* wrong) {
  for (std::uint64_t key = first; key < first + count; ++key) {
    const support::Lane::Outcome put = co_await lane->put(key, key);
    if (put.result.status != kv::OpStatus::ok) ++*wrong;
  }
}

// With chunks of 32 blocks an operation waits only for the worker's first chunk, because later chunks are
// requested ahead of need; with chunks of one block, operations may wait more often.
TEST(OnSim, ChunksAreAskedForAheadOfNeed) {
  const auto module = race::make_module();
  std::map<std::string, double> waits;
  for (const char* chunk : {"1", "32"}) {
    kv::DeployConfig config = small_deploy(2, 1, 1, 0);
    config.server_nodes = 1;
    config.max_keys = 400;
    StoreCluster cluster(make_fabric("sim", {.nodes = 2}), *module,
                         {.config = config, .options = chunks_of(chunk)});
    std::uint64_t wrong = 0;
    cluster.start(0, [&](support::Lane* lane) { return insert(lane, 0, 400, &wrong); });
    ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
    EXPECT_EQ(wrong, 0u);
    waits[chunk] = cluster.counter("chunk_waits");
    EXPECT_GE(cluster.counter("allocs") * std::stod(chunk), 400) << chunk;
    EXPECT_GT(cluster.counter("alloc_ns"), 1'000 * cluster.counter("allocs")) << chunk;
  }
  EXPECT_EQ(waits.at("32"), 1);
  EXPECT_GE(waits.at("1"), 1);
}

// A node whose blocks are used up answers that it has none left, and PUTs that get no block then end as in a
// full table.
TEST(OnSim, AFullNodeEndsInsertsAsAFullTable) {
  const auto module = race::make_module();
  kv::DeployConfig config = small_deploy(3, 1, 1, 0);
  config.server_nodes = 1;
  config.max_keys = 40;
  auto options = chunks_of("8");
  options["race.load-factor"] = "0.05";
  StoreCluster cluster(make_fabric("sim", {.nodes = 3}), *module, {.config = config, .options = options});
  std::uint64_t full = 0;
  cluster.start(0, [&](support::Lane* lane) { return support::fill(lane, 400, &full); });
  ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(cluster.counter("blocks_not_given"), 0);
  EXPECT_EQ(cluster.counter("allocs_full"), 1);  // asked once
  EXPECT_GT(full, 200u);
  EXPECT_EQ(static_cast<double>(full), cluster.counter("puts_without_a_block"));
  EXPECT_EQ(cluster.store().audit({}), std::vector<std::string>{});
}

struct Failing {
  std::uint64_t findings = 0;  // found by the audit: blocks in two places, and blocks that others overwrote
  std::uint64_t foreign = 0;   // GETs of another key's value
  double repeated = 0;         // ALLOC requests that a manager had answered before
};

// Runs clients over connections that fail, so that ALLOC requests and their replies are lost, and returns
// what was found.
Failing run_failing(const char* fabric, const std::string& mutant) {
  const auto module = race::make_module();
  auto options = chunks_of("1");
  options["race.reconnect-timeout"] = "1s";
  options["race.alloc-timeout"] = "5s";
  kv::DeployConfig config = small_deploy(4, 3, 1, 24);
  config.server_nodes = 1;
  StoreCluster cluster(make_fabric(fabric, {.nodes = 4, .losses = {.seed = 3, .rc_error = 0.05}}), *module,
                       {.config = config, .options = options, .mutant = mutant});
  support::Tally tally;
  for (std::size_t w = 0; w < cluster.workers(); ++w)
    cluster.start(w, [&](support::Lane* lane) { return support::work(lane, 24, 100, &tally); });
  EXPECT_EQ(cluster.run(), fabric::RunEnd::finished);
  EXPECT_EQ(tally.torn, 0u);
  return {cluster.store().audit({}).size(), tally.foreign, cluster.counter("allocs_repeated")};
}

TEST_P(On, RepeatedRequestsGiveNobodyAnothersBlocks) {
  const Failing seen = run_failing(GetParam(), "");
  EXPECT_EQ(seen.findings, 0u);
  EXPECT_EQ(seen.foreign, 0u);
  // in real time (shm) it is chance which requests fail, so that perhaps none is repeated
  if (std::string(GetParam()) == "sim") EXPECT_GT(seen.repeated, 0);
}

// A known-bad manager, which gives the chunk of a repeated request to the next client too, is found by the
// audit.
TEST(OnSim, AChunkThatIsGivenTwiceIsFound) {
  const Failing seen = run_failing("sim", "chunk-given-twice");
  EXPECT_GT(seen.repeated, 0);
  EXPECT_GT(seen.findings, 0u);
}

TEST(Module, RefusesInOneLine) {
  const auto module = race::make_module();
  const auto refused = [&](const kv::DeployConfig& config, const std::map<std::string, std::string>& set) {
    kv::Options options(module->options());
    for (const auto& [key, value] : set) EXPECT_TRUE(options.set(key, value).has_value());
    const auto store = module->deploy(config, options, {});
    return store.has_value() ? std::string() : store.error().message;
  };
  kv::DeployConfig config = memory_nodes(24, 24);
  EXPECT_EQ(refused(config, chunks_of("4")), "");
  EXPECT_NE(refused(config, {}).find("servers: race has no server workers, 1 were asked for; expected 0"),
            std::string::npos);
  std::map<std::string, std::string> slow = chunks_of("4");
  slow["race.alloc-cpu"] = "5us";
  EXPECT_EQ(refused(config, slow), "");
  config.server_workers = 0;
  EXPECT_EQ(refused(config, {{"race.alloc-cpu", "0ns"}, {"race.chunk-blocks", "4"}}), "");
  EXPECT_EQ(refused(config, {{"race.alloc-cpu", "5us"}}),
            "race.alloc-cpu: without chunks no client makes an ALLOC; expected 0, or race.allocation chunks "
            "alongside it");
  for (const std::uint32_t servers : {0U, 2U}) {
    config.server_workers = servers;
    EXPECT_NE(refused(config, chunks_of("4")).find("servers: race.allocation chunks: one server worker"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace loch::chunks
