// Conformance tests of fabrics: READ, WRITE, CAS, FAA, chains, inline payload, fences.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/support/backends.h"

namespace loch::fabric {
namespace {

constexpr std::array<std::uint32_t, 9> lengths{1, 7, 8, 63, 64, 65, 4096, 5000, 16384};

WorkRequest request_of(Verb verb, const RemoteRegion& remote, std::uint64_t offset, LocalSlice local,
                       std::uint32_t length) {
  return one_sided(verb, remote, offset, local, length, nullptr);
}

coro::Task<void> read_all_lengths(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (const std::uint32_t length : lengths) {
    for (const std::uint64_t offset : {0ull, 64ull, 3ull}) {
      cluster->fill(0, 65536, 20000, 200);
      const LocalSlice to = cluster->at(0, 65536 + offset);
      const Completion done = co_await worker.read(cluster->remote[1], offset, to, length);
      EXPECT_TRUE(done.ok());
      EXPECT_EQ(std::memcmp(to.data(), cluster->memory[1]->at(offset), length), 0)
          << length << " at " << offset;
    }
  }
}

TEST_P(FabricTest, ReadFetchesEveryLength) {
  Cluster cluster(GetParam());
  cluster.fill(1, 0, 20000, 1);
  cluster.start(0, read_all_lengths(&cluster));
  cluster.run();
}

// A READ after the WRITE on the same queue pair guarantees that the WRITE is visible (rules 3 and 4 of
// fabric.h).
coro::Task<void> write_all_lengths(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  unsigned first = 1;
  for (const std::uint32_t length : lengths) {
    ++first;
    cluster->fill(0, 0, length, first);
    const LocalSlice from = cluster->at(0, 0);
    const Completion done = co_await worker.write(cluster->remote[1], 128, from, length);
    EXPECT_TRUE(done.ok());
    const LocalSlice back = cluster->at(0, 65536);
    const Completion read = co_await worker.read(cluster->remote[1], 128, back, length);
    EXPECT_TRUE(read.ok());
    EXPECT_TRUE(cluster->holds(0, 65536, length, first)) << length;
    EXPECT_TRUE(cluster->holds(1, 128, length, first)) << length;
  }
}

TEST_P(FabricTest, WritePlacesEveryLength) {
  Cluster cluster(GetParam());
  cluster.start(0, write_all_lengths(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 120), 0u);
}

coro::Task<void> swap_words(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const RemoteRegion& target = cluster->remote[1];
  const Completion swapped = co_await worker.cas(target, 64, 5, 9);
  EXPECT_TRUE(swapped.ok());
  EXPECT_EQ(swapped.result, 5u);
  const Completion refused = co_await worker.cas(target, 64, 5, 11);
  EXPECT_TRUE(refused.ok());
  EXPECT_EQ(refused.result, 9u);
  const Completion added = co_await worker.faa(target, 64, 0xffffffffffffffffULL);
  EXPECT_EQ(added.result, 9u);
  WorkRequest landing = request_of(Verb::faa, target, 64, cluster->at(0, 512), 8);
  landing.operand = 100;
  const Completion landed = co_await worker.execute(landing);
  EXPECT_TRUE(landed.ok());
  EXPECT_EQ(landed.result, 8u);
  EXPECT_EQ(cluster->word(0, 512), 8u);
}

TEST_P(FabricTest, AtomicsSwapAndAdd) {
  Cluster cluster(GetParam());
  cluster.set_word(1, 64, 5);
  cluster.start(0, swap_words(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 64), 108u);
}

coro::Task<void> count_by_cas(Cluster* cluster, NodeId self, int times) {
  Worker& worker = *cluster->clients[self];
  const RemoteRegion target = cluster->remote[1];
  std::uint64_t seen = 0;
  for (int done = 0; done < times;) {
    const Completion swapped = co_await worker.cas(target, 0, seen, seen + 1);
    EXPECT_TRUE(swapped.ok());
    if (swapped.result == seen) ++done;
    seen = swapped.result == seen ? seen + 1 : swapped.result;
    const Completion added = co_await worker.faa(target, 8, 3);
    EXPECT_TRUE(added.ok());
    if (!added.ok()) break;
  }
}

TEST_P(FabricTest, AtomicsOfSeveralNodesLoseNothing) {
  Cluster cluster(GetParam(), 3);
  for (NodeId node = 0; node < 3; ++node) cluster.start(node, count_by_cas(&cluster, node, 200));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 0), 600u);
  EXPECT_GE(cluster.word(1, 8), 1800u);
  EXPECT_EQ(cluster.word(1, 8) % 3, 0u);
}

// Posts a chain of FAAs of which only the last is signaled. Each FAA returns the word's previous value, in
// the work request and, if the request has a local buffer, there as well.
coro::Task<void> add_in_a_chain(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  std::array<WorkRequest, 8> chain;
  for (std::uint32_t i = 0; i < chain.size(); ++i) {
    chain[i] =
        request_of(Verb::faa, cluster->remote[1], 64, i % 2 == 0 ? LocalSlice{} : cluster->at(0, i * 8), 8);
    chain[i].operand = 3;
    chain[i].is_signaled = i + 1 == chain.size();
  }
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::success);
  for (std::uint32_t i = 0; i < chain.size(); ++i) {
    EXPECT_EQ(chain[i].result, 3 * i);
    if (i % 2 == 1) EXPECT_EQ(cluster->word(0, i * 8), 3 * i);
  }
}

TEST_P(FabricTest, UnsignaledAtomicsReturnTheirOldWords) {
  Cluster cluster(GetParam());
  cluster.start(0, add_in_a_chain(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 64), 24u);
}

coro::Task<void> chain_of_three(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->fill(0, 0, 100, 3);
  cluster->fill(0, 1024, 64, 4);
  std::array<WorkRequest, 3> chain;
  chain[0] = request_of(Verb::write, cluster->remote[1], 0, cluster->at(0, 0), 100);
  chain[1] = request_of(Verb::write, cluster->remote[1], 4096, cluster->at(0, 1024), 64);
  chain[2] = request_of(Verb::read, cluster->remote[1], 0, cluster->at(0, 8192), 100);
  chain[0].is_signaled = false;
  chain[1].is_signaled = false;
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::success);
  EXPECT_TRUE(cluster->holds(0, 8192, 100, 3));
}

TEST_P(FabricTest, ChainWithSelectiveSignaling) {
  Cluster cluster(GetParam());
  cluster.start(0, chain_of_three(&cluster));
  cluster.run();
  EXPECT_TRUE(cluster.holds(1, 0, 100, 3));
  EXPECT_TRUE(cluster.holds(1, 4096, 64, 4));
}

coro::Task<void> many_unsignaled(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  std::vector<WorkRequest> chain(16);
  for (int round = 0; round < 40; ++round) {  // in total, more requests than the send queue holds
    for (std::uint32_t i = 0; i < chain.size(); ++i) {
      cluster->set_word(0, i * 8, static_cast<std::uint64_t>(round) * 100 + i);
      chain[i] = request_of(Verb::write, cluster->remote[1], i * 8, cluster->at(0, i * 8), 8);
      chain[i].is_signaled = i + 1 == chain.size();
    }
    const WcStatus status = co_await worker.post_and_wait(chain);
    EXPECT_EQ(status, WcStatus::success);
  }
  const LocalSlice back = cluster->at(0, 4096);
  const Completion read = co_await worker.read(cluster->remote[1], 0, back, 128);
  EXPECT_TRUE(read.ok());
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(cluster->word(0, 4096 + i * 8), 3900 + i);
}

TEST_P(FabricTest, UnsignaledRequestsRetire) {
  Cluster cluster(GetParam());
  cluster.start(0, many_unsignaled(&cluster));
  cluster.run();
}

coro::Task<void> more_reads_than_allowed(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  const std::uint32_t count = std::min(worker.capabilities().max_rd_atomic * 3, 100u);
  std::vector<WorkRequest> chain(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    chain[i] = request_of(Verb::read, cluster->remote[1], i * 64, cluster->at(0, i * 64), 64);
  }
  const WcStatus status = co_await worker.post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::success);
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::memcmp(cluster->at(0, i * 64).data(), cluster->at(1, i * 64).data(), 64), 0) << i;
  }
}

TEST_P(FabricTest, ReadsBeyondTheLimitWaitTheirTurn) {  // rule 7 of fabric.h: READs beyond max_rd_atomic wait
  Cluster cluster(GetParam());
  cluster.fill(1, 0, 100 * 64, 77);
  cluster.start(0, more_reads_than_allowed(&cluster));
  cluster.run();
}

coro::Task<void> inline_data_is_free(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  if (worker.capabilities().max_inline_bytes < 64) co_return;
  for (unsigned round = 1; round <= 20; ++round) {
    cluster->fill(0, 0, 64, round);
    WorkRequest request = request_of(Verb::write, cluster->remote[1], 0, cluster->at(0, 0), 64);
    request.is_inline = true;
    worker.post_detached(request);
    // Allowed by rule 5 of fabric.h: inline payload was copied when the request was posted.
    cluster->fill(0, 0, 64, round + 100);
    const LocalSlice back = cluster->at(0, 4096);
    const Completion read = co_await worker.read(cluster->remote[1], 0, back, 64);
    EXPECT_TRUE(read.ok());
    EXPECT_TRUE(cluster->holds(0, 4096, 64, round));
  }
}

TEST_P(FabricTest, InlineDataIsTheSendersAtOnce) {
  Cluster cluster(GetParam());
  cluster.start(0, inline_data_is_free(&cluster));
  cluster.run();
}

coro::Task<void> fenced_write(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (std::uint64_t round = 1; round <= 50; ++round) {
    cluster->set_word(0, 0, round);
    std::array<WorkRequest, 2> chain;
    chain[0] = request_of(Verb::read, cluster->remote[1], 256, cluster->at(0, 8), 8);
    chain[1] = request_of(Verb::write, cluster->remote[1], 256, cluster->at(0, 0), 8);
    chain[1].is_fenced = true;
    const WcStatus status = co_await worker.post_and_wait(chain);
    EXPECT_EQ(status, WcStatus::success);
    // The READ must not see the value of the WRITE that was posted after it.
    EXPECT_EQ(cluster->word(0, 8), round - 1);
    // this FAA of 0 reads the word after the WRITE
    const Completion added = co_await worker.faa(cluster->remote[1], 256, 0);
    EXPECT_EQ(added.result, round);
  }
}

// rule 4 of fabric.h: a fenced request follows earlier READs
TEST_P(FabricTest, FencedWriteWaitsForTheRead) {
  Cluster cluster(GetParam());
  cluster.start(0, fenced_write(&cluster));
  cluster.run();
}

coro::Task<void> detached_swap(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  for (std::uint64_t round = 1; round <= 50; ++round) {
    cluster->set_word(0, 8, ~0ull);
    WorkRequest swap = request_of(Verb::cas, cluster->remote[1], 64, cluster->at(0, 8), 8);
    swap.compare = round - 1;
    swap.operand = round;
    worker.post_detached(swap);
    WatchWord old{cluster->memory[0], 8};
    old.value = round - 1;
    const Nanos deadline = worker.now() + 5 * second;
    const WatchOutcome seen = co_await worker.watch(old, deadline);
    EXPECT_EQ(seen, WatchOutcome::ready) << round;
    if (seen != WatchOutcome::ready) co_return;
  }
}

TEST_P(FabricTest, TheOldWordOfADetachedAtomicLands) {
  Cluster cluster(GetParam());
  cluster.start(0, detached_swap(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(1, 64), 50u);
}

coro::Task<void> loopback(Cluster* cluster) {
  Worker& worker = *cluster->clients[0];
  cluster->fill(0, 0, 256, 9);
  const LocalSlice from = cluster->at(0, 0);
  const Completion written = co_await worker.write(cluster->remote[0], 8192, from, 256);
  EXPECT_TRUE(written.ok());
  const Completion added = co_await worker.faa(cluster->remote[0], 16384, 4);
  EXPECT_TRUE(added.ok());
  const LocalSlice to = cluster->at(0, 20480);
  const Completion read = co_await worker.read(cluster->remote[0], 8192, to, 256);
  EXPECT_TRUE(read.ok());
  EXPECT_TRUE(cluster->holds(0, 20480, 256, 9));
}

TEST_P(FabricTest, ANodeReachesItself) {
  Cluster cluster(GetParam());
  cluster.start(0, loopback(&cluster));
  cluster.run();
  EXPECT_EQ(cluster.word(0, 16384), 4u);
}

coro::Task<void> read_loop(Cluster* cluster, std::uint32_t slot, int times, int* done) {
  Worker& worker = *cluster->clients[0];
  for (int i = 0; i < times; ++i) {
    const LocalSlice to = cluster->at(0, slot * 64);
    const Completion read = co_await worker.read(cluster->remote[1], slot * 64, to, 64);
    EXPECT_TRUE(read.ok());
    ++*done;
  }
}

coro::Task<void> window(Cluster* cluster, int* done) {
  coro::Scope scope(cluster->clients[0]->run_queue());
  for (std::uint32_t slot = 0; slot < 32; ++slot) scope.spawn(read_loop(cluster, slot, 50, done));
  co_await scope.join();
}

TEST_P(FabricTest, ManyCoroutinesShareAWorker) {
  Cluster cluster(GetParam());
  cluster.fill(1, 0, 4096, 1);
  int done = 0;
  cluster.start(0, window(&cluster, &done));
  cluster.run();
  EXPECT_EQ(done, 1600);
  EXPECT_EQ(std::memcmp(cluster.at(0, 0).data(), cluster.at(1, 0).data(), 2048), 0);
}

INSTANTIATE_TEST_SUITE_P(Over, FabricTest, testing::ValuesIn(backends()), backend_name);

}  // namespace
}  // namespace loch::fabric
