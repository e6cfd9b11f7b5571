// Litmus tests of the simulator: each weak outcome that the rules of fabric.h allow has to appear when the
// injected fault for it is switched on, and meanwhile no outcome that a rule forbids.
#include <array>

#include "common/fabric/sim/sim.h"
#include "tests/fabric/litmus.h"

namespace loch::fabric {
namespace {

Backend weak_sim(const sim::SimFaults& faults) {
  return {"sim_weak", [faults](std::uint32_t nodes, std::uint64_t seed) -> Result<std::unique_ptr<Fabric>> {
            sim::SimConfig config;
            config.nodes = nodes;
            config.seed = seed;
            config.faults = faults;
            LOCH_ASSIGN(config.hardware, sim::load_hardware("connectx3-10gbe"));
            return sim::make_sim(config);
          }};
}

TEST(SimLitmus, Rule1BlocksTear) {
  for (const sim::SimFaults& faults : {sim::SimFaults{.torn_read = 0.5}, sim::SimFaults{.torn_write = 0.5},
                                       sim::SimFaults{.torn_landing = 0.5}}) {
    const TornCounts counts = tear_blocks(weak_sim(faults), 400);
    // The fault torn_landing only makes a READ's data arrive in the reader's memory in pieces. The bytes were
    // fetched at one instant, so a completed READ shows no torn block.
    if (faults.torn_landing == 0) EXPECT_GT(counts.torn_blocks, 0u);
    EXPECT_EQ(counts.torn_words, 0u);
    EXPECT_EQ(counts.foreign_words, 0u);
  }
}

TEST(SimLitmus, Rule2CpuStoresAreLostAlongsideNicAtomics) {
  const sim::SimFaults faults{.split_atomics = true};
  const AtomicCounts mixed = race_atomics(weak_sim(faults), 400, true);
  EXPECT_LT(mixed.final_sum, mixed.added);
  const AtomicCounts pure = race_atomics(weak_sim(faults), 400, false);
  EXPECT_EQ(pure.final_sum, pure.added);
  EXPECT_EQ(pure.repeated_old_words, 0u);
}

TEST(SimLitmus, Rule3AWriteCompletesBeforeItIsSeen) {
  const VisibilityCounts counts = write_then_peek(weak_sim({.late_write = 0.5}), 300);
  EXPECT_GT(counts.invisible_after_completion, 0u);
  EXPECT_EQ(counts.invisible_after_read, 0u);
  EXPECT_EQ(receive_before_data(weak_sim({.late_write = 0.5}), 300), 0u);
}

TEST(SimLitmus, Rule4AWriteOvertakesARead) {
  const OrderCounts counts = order_on_queue_pair(weak_sim({.overtaking_write = 0.5}), 300);
  EXPECT_GT(counts.write_overtook_read, 0u);
  EXPECT_EQ(counts.fenced_write_overtook, 0u);
  EXPECT_EQ(counts.read_missed_write, 0u);
  EXPECT_EQ(counts.atomic_missed_write, 0u);
}

TEST(SimLitmus, Rule5ABufferIsReadAfterThePost) {
  const BufferCounts counts = reuse_buffer(weak_sim({}), 200);
  EXPECT_GT(counts.changed, 0u);
  EXPECT_EQ(counts.inline_changed, 0u);
  EXPECT_EQ(counts.foreign, 0u);
}

TEST(SimLitmus, Rule6UnreliableMessagesAreLost) {
  const LossCounts uc = number_messages(weak_sim({.uc_loss = 0.2}), Transport::uc, 400);
  EXPECT_LT(uc.received, uc.sent);
  EXPECT_GT(uc.received, 0u);
  EXPECT_EQ(uc.out_of_order + uc.duplicates + uc.damaged, 0u);
  const LossCounts ud = number_messages(weak_sim({.ud_loss = 0.2}), Transport::ud, 400);
  EXPECT_LT(ud.received, ud.sent);
  EXPECT_GT(ud.received, 0u);
}

TEST(SimLitmus, Rule6DatagramsAreReordered) {
  const LossCounts counts = number_messages(weak_sim({.ud_reorder = 0.3}), Transport::ud, 400);
  EXPECT_EQ(counts.received, counts.sent);
  EXPECT_GT(counts.out_of_order, 0u);
  EXPECT_EQ(counts.duplicates + counts.damaged, 0u);
}

TEST(SimLitmus, Rule6ALostWriteIsPlacedInPart) {
  const PlacementCounts counts = place_unreliable(weak_sim({.uc_loss = 0.5}), 200);
  EXPECT_GT(counts.whole, 0u);
  EXPECT_GT(counts.nothing, 0u);
  EXPECT_GT(counts.partial, 0u);
}

// A request is sent up to eight times, each time lost with probability 0.75, so that one request in ten
// fails.
TEST(SimLitmus, Rule6AFailedReliableRequestMayHaveExecuted) {
  const FailureCounts counts = fail_reliable(weak_sim({.rc_loss = 0.75}), 400);
  EXPECT_GT(counts.succeeded, 0u);
  EXPECT_GT(counts.failed_executed, 0u);
  EXPECT_GT(counts.failed_not_executed, 0u);
  EXPECT_EQ(counts.flushed_executed, 0u);
}

// Reliable requests survive losses by retransmission, and each is executed once.
TEST(SimLitmus, Rule6RetriesExecuteOnce) {
  const AtomicCounts counts = race_atomics(weak_sim({.rc_loss = 0.1}), 300, false);
  EXPECT_EQ(counts.final_sum, counts.added);
  EXPECT_EQ(counts.repeated_old_words, 0u);
}

coro::Task<void> reads_then_write(Cluster* cluster, std::uint32_t reads, Nanos* started) {
  Worker& worker = *cluster->clients[0];
  std::vector<WorkRequest> chain;
  for (std::uint32_t i = 0; i < reads; ++i) {
    chain.push_back(
        one_sided(Verb::read, cluster->remote[1], 4096, cluster->at(0, 64 + i * 64), 64, nullptr));
  }
  cluster->set_word(0, 0, 1);
  chain.push_back(one_sided(Verb::write, cluster->remote[1], 0, cluster->at(0, 0), 8, nullptr));
  *started = worker.now();
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::success);
}

coro::Task<void> time_arrival(Cluster* cluster, Nanos* at) {
  Worker& worker = *cluster->clients[1];
  const WatchWord arrived{cluster->memory[1], 0, ~0ull, 1, true, std::nullopt};
  const WatchOutcome outcome = co_await worker.watch(arrived);
  EXPECT_EQ(outcome, WatchOutcome::ready);
  *at = worker.now();
}

Nanos arrival_behind(std::uint32_t reads) {
  Cluster cluster(weak_sim({}));
  Nanos started = 0, arrived = 0;
  cluster.start(0, reads_then_write(&cluster, reads, &started));
  cluster.start(1, time_arrival(&cluster, &arrived));
  cluster.run();
  return arrived - started;
}

TEST(SimLitmus, Rule7AWriteStallsBehindTooManyReads) {
  const auto limit = weak_sim({}).make(1, 1).value()->capabilities().max_rd_atomic;
  const Nanos within = arrival_behind(limit - 1), just = arrival_behind(limit),
              beyond = arrival_behind(limit + 1);
  const Nanos step = just - within;  // latency that one more READ adds below the limit of outstanding READs
  EXPECT_GT(beyond - just, step + 500) << "one READ above the limit waits for the first one's response";
}

}  // namespace
}  // namespace loch::fabric
