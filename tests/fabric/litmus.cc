// Runs the races of the litmus tests (tests of memory order over RDMA) and counts their outcomes.
#include "tests/fabric/litmus.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/fabric/memory.h"

namespace loch::fabric {
namespace {

constexpr std::uint64_t block_words = 64;

WorkRequest one(Cluster* cluster, NodeId self, Verb verb, NodeId peer, std::uint64_t there,
                std::uint64_t here, std::uint32_t length) {
  return one_sided(verb, cluster->remote[peer], there, cluster->at(self, here), length, nullptr);
}

std::uint64_t twice(std::uint64_t number) { return number << 32 | number; }

coro::Task<void> write_blocks(Cluster* cluster, int rounds) {
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    for (std::uint64_t word = 0; word < block_words; ++word)
      cluster->set_word(0, word * 8, twice(static_cast<std::uint64_t>(round)));
    const WorkRequest write = one(cluster, 0, Verb::write, 1, 0, 0, block_words * 8);
    const Completion done = co_await worker.execute(write);
    EXPECT_TRUE(done.ok());
  }
}

coro::Task<void> read_blocks(Cluster* cluster, int rounds, TornCounts* counts) {
  Worker& worker = *cluster->clients[2];
  for (int round = 0; round < rounds; ++round) {
    const WorkRequest read = one(cluster, 2, Verb::read, 1, 0, 0, block_words * 8);
    const Completion done = co_await worker.execute(read);
    EXPECT_TRUE(done.ok());
    ++counts->reads;
    std::set<std::uint64_t> seen;
    for (std::uint64_t word = 0; word < block_words; ++word) {
      const std::uint64_t value = cluster->word(2, word * 8);
      if (value >> 32 != (value & 0xffffffff)) ++counts->torn_words;
      if ((value & 0xffffffff) > static_cast<std::uint64_t>(rounds)) ++counts->foreign_words;
      seen.insert(value);
    }
    if (seen.size() > 1) ++counts->torn_blocks;
  }
}

coro::Task<void> add_remotely(Cluster* cluster, NodeId self, int rounds,
                              std::vector<std::uint64_t>* old_words) {
  Worker& worker = *cluster->clients[self];
  for (int round = 0; round < rounds; ++round) {
    const Completion done = co_await worker.faa(cluster->remote[1], 0, 1);
    EXPECT_TRUE(done.ok());
    old_words->push_back(done.result & 0xffffffff);
  }
}

// The node's own CPU adds to the word's upper half by load and store, bypassing the NIC.
coro::Task<void> add_by_cpu(Cluster* cluster, int rounds) {
  Worker& worker = *cluster->clients[1];
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t word = cluster->word(1, 0);
    const Nanos soon = worker.now() + 20;
    co_await worker.spin_until(soon);
    worker.store_word(*cluster->memory[1], 0, word + (1ull << 32));
  }
}

coro::Task<void> write_and_peek(Cluster* cluster, int rounds, VisibilityCounts* counts) {
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    const auto number = static_cast<std::uint64_t>(round);
    cluster->set_word(0, 0, number);
    const WorkRequest write = one(cluster, 0, Verb::write, 1, 64, 0, 8);
    const Completion done = co_await worker.execute(write);
    EXPECT_TRUE(done.ok());
    if (cluster->word(1, 64) != number) ++counts->invisible_after_completion;
    // reads a word other than the written one
    const WorkRequest read = one(cluster, 0, Verb::read, 1, 4096, 8, 8);
    const Completion behind = co_await worker.execute(read);
    EXPECT_TRUE(behind.ok());
    if (cluster->word(1, 64) != number) ++counts->invisible_after_read;
  }
}

coro::Task<void> send_blocks(Cluster* cluster, int rounds) {
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    for (std::uint64_t word = 0; word < block_words; ++word)
      cluster->set_word(0, word * 8, static_cast<std::uint64_t>(round));
    WorkRequest send = one(cluster, 0, Verb::send, 1, 0, 0, block_words * 8);
    const Completion done = co_await worker.execute(send);
    EXPECT_TRUE(done.ok());
  }
}

coro::Task<void> receive_blocks(Cluster* cluster, int rounds, std::uint64_t* early) {
  Worker& worker = *cluster->clients[1];
  // So many buffers that a sender rarely meets a receiver which waits for a core and has none left: a device
  // sends such a message again only after its timer for receivers that are not ready.
  constexpr std::uint32_t enough = 64;
  const std::uint32_t buffers = std::min(enough, worker.capabilities().recv_queue_depth);
  for (std::uint64_t i = 0; i < buffers; ++i)
    worker.post_recv(Transport::rc, cluster->at(1, i * 512), 512, 0);
  for (int round = 1; round <= rounds; ++round) {
    const Nanos deadline = worker.now() + 20 * second;
    const Received got = co_await worker.receive(Transport::rc, deadline);
    if (got.outcome != Received::Outcome::message) co_return;
    for (std::uint64_t word = 0; word < block_words; ++word) {
      if (cluster->word(1, got.buffer.offset + word * 8) != static_cast<std::uint64_t>(round)) {
        ++*early;
        break;
      }
    }
    worker.post_recv(Transport::rc, got.buffer, 512, 0);
  }
}

coro::Task<void> order_requests(Cluster* cluster, int rounds, OrderCounts* counts) {
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    const auto number = static_cast<std::uint64_t>(round) * 4;
    cluster->set_word(0, 0, number);
    std::array<WorkRequest, 3> forward{one(cluster, 0, Verb::write, 1, 64, 0, 8),
                                       one(cluster, 0, Verb::read, 1, 64, 8, 8),
                                       one(cluster, 0, Verb::faa, 1, 64, 0, 8)};
    forward[2].local = {};
    const WcStatus status = co_await worker.post_and_wait(forward);
    EXPECT_EQ(status, WcStatus::success);
    if (cluster->word(0, 8) != number) ++counts->read_missed_write;
    if (forward[2].result != number) ++counts->atomic_missed_write;
    for (const bool is_fenced : {true, false}) {
      const std::uint64_t next = number + (is_fenced ? 1 : 2);
      cluster->set_word(0, 0, next);
      std::array<WorkRequest, 2> backward{one(cluster, 0, Verb::read, 1, 64, 8, 8),
                                          one(cluster, 0, Verb::write, 1, 64, 0, 8)};
      backward[1].is_fenced = is_fenced;
      const WcStatus ended = co_await worker.post_and_wait(backward);
      EXPECT_EQ(ended, WcStatus::success);
      if (cluster->word(0, 8) == next)
        ++(is_fenced ? counts->fenced_write_overtook : counts->write_overtook_read);
      const Completion flush = co_await worker.faa(cluster->remote[1], 64, 0);
      EXPECT_EQ(flush.result, next);
    }
  }
}

coro::Task<void> change_buffers(Cluster* cluster, int rounds, BufferCounts* counts) {
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    for (const bool is_inline : {true, false}) {
      const auto number = static_cast<std::uint64_t>(round) * 4 + (is_inline ? 0 : 2);
      cluster->set_word(0, 0, number);
      WorkRequest write = one(cluster, 0, Verb::write, 1, 64, 0, 8);
      write.is_inline = is_inline;
      worker.post_detached(write);
      cluster->set_word(0, 0, number + 1);
      const WorkRequest read = one(cluster, 0, Verb::read, 1, 64, 8, 8);
      const Completion done = co_await worker.execute(read);
      EXPECT_TRUE(done.ok());
      const std::uint64_t seen = cluster->word(0, 8);
      if (seen == number + 1)
        ++(is_inline ? counts->inline_changed : counts->changed);
      else if (seen != number)
        ++counts->foreign;
    }
  }
}

// Sends numbered messages in bursts, each message from its own buffer because a device may delay some of
// them.
coro::Task<void> send_numbers(Cluster* cluster, Transport transport, std::uint64_t count,
                              LossCounts* counts) {
  Worker& worker = *cluster->clients[0];
  std::array<WorkRequest, 8> burst;
  while (counts->sent < count) {
    for (std::uint64_t i = 0; i < burst.size(); ++i) {
      const std::uint64_t number = counts->sent++;
      cluster->set_word(0, i * 16, number);
      cluster->set_word(0, i * 16 + 8, ~number);
      burst[i] = one(cluster, 0, Verb::send, 1, 0, i * 16, 16);
      burst[i].transport = transport;
      burst[i].peer_worker = 1;
    }
    const WcStatus status = co_await worker.post_and_wait(burst);
    EXPECT_EQ(status, WcStatus::success);
    const Nanos pause = worker.now() + 50'000;  // end of a pause of 50 us, which lets the receiver keep up
    co_await worker.sleep_until(pause);
  }
  const Nanos end = worker.now() + 5 * millisecond;
  co_await worker.sleep_until(end);
}

coro::Task<void> receive_numbers(Cluster* cluster, Transport transport, LossCounts* counts) {
  Worker& worker = *cluster->servers[1];
  const std::uint64_t head = transport == Transport::ud ? 40 : 0;
  std::set<std::uint64_t> seen;
  std::uint64_t latest = 0;
  for (;;) {
    const Received got = co_await worker.receive(transport);
    if (got.outcome != Received::Outcome::message) break;
    const std::uint64_t number = cluster->word(1, got.buffer.offset + head);
    if (cluster->word(1, got.buffer.offset + head + 8) != ~number || got.length != 16) ++counts->damaged;
    if (!seen.insert(number).second) ++counts->duplicates;
    if (number < latest) ++counts->out_of_order;
    latest = std::max(latest, number);
    ++counts->received;
    worker.post_recv(transport, got.buffer, 64, 0);
  }
}

coro::Task<void> place_blocks(Cluster* cluster, int rounds, PlacementCounts* counts) {
  constexpr std::uint32_t length = 1024;
  Worker& worker = *cluster->clients[0];
  for (int round = 1; round <= rounds; ++round) {
    for (std::uint64_t at = 0; at < length; at += 8)
      cluster->set_word(0, at, static_cast<std::uint64_t>(round));
    WorkRequest write = one(cluster, 0, Verb::write, 1, 0, 0, length);
    write.transport = Transport::uc;
    const Completion done = co_await worker.execute(write);
    EXPECT_TRUE(done.ok());
    const Nanos later = worker.now() + 100'000;
    co_await worker.sleep_until(later);
    std::uint64_t placed = 0;
    for (std::uint64_t at = 0; at < length; at += 8)
      placed += cluster->word(1, at) == static_cast<std::uint64_t>(round) ? 1 : 0;
    ++(placed == 0 ? counts->nothing : placed == length / 8 ? counts->whole : counts->partial);
  }
}

coro::Task<void> add_until_failure(Cluster* cluster, int rounds, FailureCounts* counts) {
  Worker& worker = *cluster->clients[0];
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t before = cluster->word(1, 0);
    std::array<WorkRequest, 2> chain{one(cluster, 0, Verb::faa, 1, 0, 0, 8),
                                     one(cluster, 0, Verb::faa, 1, 8, 0, 8)};
    for (WorkRequest& request : chain) request.local = {};
    for (WorkRequest& request : chain) request.operand = 1;
    const std::uint64_t second_before = cluster->word(1, 8);
    const WcStatus status = co_await worker.post_and_wait(chain);
    if (status == WcStatus::success) {
      ++counts->succeeded;
      continue;
    }
    const Nanos later = worker.now() + 50'000;
    co_await worker.sleep_until(later);
    if (chain[0].status == WcStatus::retry_exceeded) {
      ++(cluster->word(1, 0) != before ? counts->failed_executed : counts->failed_not_executed);
      EXPECT_EQ(chain[1].status, WcStatus::flushed);
      // Counts a request that was executed although the request before it on the queue pair had failed, which
      // is forbidden.
      if (cluster->word(1, 0) == before && cluster->word(1, 8) != second_before) ++counts->flushed_executed;
    } else if (chain[1].status == WcStatus::retry_exceeded) {
      ++(cluster->word(1, 8) != second_before ? counts->failed_executed : counts->failed_not_executed);
    }
    const Nanos deadline = worker.now() + 5 * second;
    const bool connected = co_await worker.reconnect(1, deadline);
    EXPECT_TRUE(connected);
    if (!connected) co_return;
  }
}

// Number of rounds of a litmus test. In real time many more are needed than in simulated time, because
// threads start one after another and the outcomes are rare.
int rounds_of(const Cluster& cluster, int rounds) {
  return cluster.fabric->capabilities().simulated ? rounds : rounds * 20;
}

}  // namespace

TornCounts tear_blocks(const Backend& backend, int rounds) {
  Cluster cluster(backend, 3);
  rounds = rounds_of(cluster, rounds);
  TornCounts counts;
  cluster.start(0, write_blocks(&cluster, rounds));
  cluster.start(2, read_blocks(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

AtomicCounts race_atomics(const Backend& backend, int rounds, bool cpu_adds) {
  Cluster cluster(backend, 3);
  rounds = rounds_of(cluster, rounds);
  std::vector<std::uint64_t> old_words[2];
  cluster.start(0, add_remotely(&cluster, 0, rounds, &old_words[0]));
  cluster.start(2, add_remotely(&cluster, 2, rounds, &old_words[1]));
  if (cpu_adds) cluster.start(1, add_by_cpu(&cluster, rounds * 4));
  cluster.run();
  AtomicCounts counts;
  counts.added = static_cast<std::uint64_t>(rounds) * 2;
  counts.final_sum = cluster.word(1, 0) & 0xffffffff;
  std::set<std::uint64_t> seen;
  for (const auto& words : old_words) {
    for (const std::uint64_t word : words) counts.repeated_old_words += seen.insert(word).second ? 0 : 1;
  }
  return counts;
}

VisibilityCounts write_then_peek(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  VisibilityCounts counts;
  cluster.start(0, write_and_peek(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

std::uint64_t receive_before_data(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  std::uint64_t early = 0;
  cluster.start(1, receive_blocks(&cluster, rounds, &early));
  cluster.start(0, send_blocks(&cluster, rounds));
  cluster.run();
  return early;
}

OrderCounts order_on_queue_pair(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  OrderCounts counts;
  cluster.start(0, order_requests(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

BufferCounts reuse_buffer(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  BufferCounts counts;
  if (cluster.fabric->capabilities().max_inline_bytes < 8) return counts;
  cluster.start(0, change_buffers(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

LossCounts number_messages(const Backend& backend, Transport transport, std::uint64_t count) {
  Cluster cluster(backend, 2, true);
  LossCounts counts;
  // Posts so many receive buffers that a slow receiver loses no message. A device whose receive queue takes
  // fewer gets only as many messages.
  constexpr std::uint64_t enough = 256;
  const std::uint64_t buffers =
      std::min<std::uint64_t>(enough, cluster.fabric->capabilities().recv_queue_depth);
  if (buffers < enough) count = std::min(count, buffers);
  for (std::uint64_t i = 0; i < buffers; ++i)
    cluster.servers[1]->post_recv(transport, cluster.at(1, 4096 + i * 64), 64, 0);
  cluster.start_server(1, receive_numbers(&cluster, transport, &counts));
  cluster.start(0, send_numbers(&cluster, transport, count, &counts));
  cluster.run();
  return counts;
}

PlacementCounts place_unreliable(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  PlacementCounts counts;
  cluster.start(0, place_blocks(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

FailureCounts fail_reliable(const Backend& backend, int rounds) {
  Cluster cluster(backend);
  FailureCounts counts;
  cluster.start(0, add_until_failure(&cluster, rounds, &counts));
  cluster.run();
  return counts;
}

}  // namespace loch::fabric
