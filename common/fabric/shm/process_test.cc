// Tests several processes: exchange, data path, barriers, gathering, and processes that die.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "common/cluster/supervise.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

constexpr Nanos second = 1'000'000'000;

std::string job_name() {
  static int number = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++number);
}

std::vector<std::string> left_behind(const std::string& job) {
  std::vector<std::string> names;
  DIR* folder = opendir("/dev/shm");
  while (const dirent* entry = readdir(folder)) {
    if (std::string(entry->d_name).starts_with("loch." + job + ".")) names.emplace_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

// Forks one process for each rank and waits for all. The status of a rank is 0 if its checks passed.
std::vector<int> run_ranks(std::uint32_t ranks, const std::function<int(std::uint32_t)>& rank_main) {
  std::vector<pid_t> processes;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);
      _exit(rank_main(rank));
    }
    processes.push_back(process);
  }
  std::vector<int> statuses;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return statuses;
}

#define EXPECT_OR_FAIL(condition)                                                              \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: rank %u: %s\n", __FILE__, __LINE__, node.rank, #condition); \
      node.failures += 1;                                                                      \
    }                                                                                          \
  } while (false)

// One rank of a job, which hosts a node with a region and a worker.
struct Node {
  std::uint32_t rank = 0, ranks = 0;
  int failures = 0;
  std::unique_ptr<Fabric> fabric;
  Region* memory = nullptr;
  Worker* worker = nullptr;
  std::vector<RemoteRegion> remote;
};

bool make_node(Node& node, const std::string& job, std::uint32_t rank, std::uint32_t ranks) {
  node.rank = rank;
  node.ranks = ranks;
  auto made = shm::make_shm({.nodes = ranks, .rank = rank, .ranks = ranks, .job = job});
  if (!made) {
    std::fprintf(stderr, "rank %u: %s\n", rank, made.error().message.c_str());
    return false;
  }
  node.fabric = std::move(*made);
  const auto self = static_cast<NodeId>(rank);
  node.memory = node.fabric->register_region(self, {"memory", 65536, true, true, true, {}}).value();
  node.worker = node.fabric->add_worker({self, Role::client, 0, -1, "client"}).value();
  return true;
}

bool exchange(Node& node) {
  const auto done = node.fabric->exchange(30 * second);
  if (!done) std::fprintf(stderr, "rank %u: %s\n", node.rank, done.error().message.c_str());
  if (!done) return false;
  for (std::uint32_t peer = 0; peer < node.ranks; ++peer) {
    node.remote.push_back(node.fabric->lookup(static_cast<NodeId>(peer), "memory").value());
  }
  return true;
}

WorkRequest message_to(NodeId peer, LocalSlice from) {
  WorkRequest request;
  request.verb = Verb::send;
  request.peer = peer;
  request.local = from;
  request.length = 8;
  return request;
}

// Adds to a counter on every node, and passes a token from node to node.
coro::Task<void> work(Node* at) {
  Node& node = *at;
  Worker& worker = *node.worker;
  for (std::uint32_t peer = 0; peer < node.ranks; ++peer) {
    for (int i = 0; i < 500; ++i) {
      const Completion added = co_await worker.faa(node.remote[peer], 0, 1);
      EXPECT_OR_FAIL(added.ok());
    }
  }
  const LocalSlice buffer{node.memory, 4096};
  worker.post_recv(Transport::rc, buffer, 64, 7);
  const LocalSlice token{node.memory, 8192};
  if (node.rank == 0) {
    store_word_release(token.data(), 1);
    const WorkRequest first = message_to(1 % node.ranks, token);
    const Completion sent = co_await worker.execute(first);
    EXPECT_OR_FAIL(sent.ok());
  }
  const Nanos deadline = worker.now() + 20 * second;
  const Received got = co_await worker.receive(Transport::rc, deadline);
  EXPECT_OR_FAIL(got.outcome == Received::Outcome::message);
  EXPECT_OR_FAIL(got.from == (node.rank + node.ranks - 1) % node.ranks);
  EXPECT_OR_FAIL(load_word(buffer.data()) == (node.rank == 0 ? node.ranks : node.rank));
  if (node.rank != 0) {
    store_word_release(token.data(), node.rank + 1);
    const WorkRequest next = message_to(static_cast<NodeId>((node.rank + 1) % node.ranks), token);
    const Completion sent = co_await worker.execute(next);
    EXPECT_OR_FAIL(sent.ok());
  }
}

int rank_that_works(const std::string& job, std::uint32_t rank, std::uint32_t ranks) {
  Node node;
  if (!make_node(node, job, rank, ranks) || !exchange(node)) return 100;
  EXPECT_OR_FAIL(node.fabric->barrier("start", 20 * second).has_value());
  node.fabric->start(*node.worker, work(&node));
  EXPECT_OR_FAIL(node.fabric->run().value() == RunEnd::finished);
  EXPECT_OR_FAIL(node.fabric->barrier("end", 20 * second).has_value());
  EXPECT_OR_FAIL(load_word(node.memory->at(0)) == 500 * ranks);
  Region* next = node.fabric->direct(static_cast<NodeId>((rank + 1) % ranks), "memory");
  EXPECT_OR_FAIL(next != nullptr && load_word(next->at(0)) == 500 * ranks);
  const auto texts =
      node.fabric->gather(std::string(rank * 100'000, 'x') + std::to_string(rank), 20 * second);
  EXPECT_OR_FAIL(texts.has_value() && texts->size() == (rank == 0 ? ranks : 0));
  for (std::uint32_t peer = 0; rank == 0 && texts && peer < ranks; ++peer) {
    EXPECT_OR_FAIL((*texts)[peer] == std::string(peer * 100'000, 'x') + std::to_string(peer));
  }
  return node.failures;
}

TEST(ShmProcesses, ShareMemoryMessagesAndResults) {
  const std::string job = job_name();
  EXPECT_THAT(run_ranks(3, [&](std::uint32_t rank) { return rank_that_works(job, rank, 3); }),
              testing::Each(0));
  EXPECT_THAT(left_behind(job), testing::IsEmpty());
}

// Gathers texts: the lowest rank alive receives them. Meanwhile no shared-memory object of the job has a
// name.
int rank_that_gathers(const std::string& job, std::uint32_t rank) {
  Node node;
  if (!make_node(node, job, rank, 3) || !exchange(node)) return 100;
  EXPECT_OR_FAIL(node.fabric->barrier("every rank has removed its names", 20 * second).has_value());
  EXPECT_OR_FAIL(left_behind(job).empty());
  if (rank == 0) kill(getpid(), SIGKILL);
  const auto texts = node.fabric->gather("text " + std::to_string(rank), 20 * second);
  EXPECT_OR_FAIL(texts.has_value());
  if (!texts) return node.failures;
  const std::vector<std::string> expected = {"", "text 1", "text 2"};
  EXPECT_OR_FAIL(*texts == (rank == 1 ? expected : std::vector<std::string>()));
  EXPECT_OR_FAIL(node.fabric->report().nodes[0].is_lost);
  return node.failures;
}

TEST(ShmProcesses, TheLowestRankAliveGathers) {
  const std::string job = job_name();
  EXPECT_EQ(run_ranks(3, [&](std::uint32_t rank) { return rank_that_gathers(job, rank); }),
            (std::vector<int>{-SIGKILL, 0, 0}));
  EXPECT_THAT(left_behind(job), testing::IsEmpty());
}

// A job's name can be used again by later fabrics of the same processes, as when a measurement is repeated.
TEST(ShmProcesses, AJobsNameIsUsedAgain) {
  const std::string job = job_name();
  const auto rank_main = [&](std::uint32_t rank) {
    int failures = 0;
    for (int repeat = 0; repeat < 10; ++repeat) failures += rank_that_works(job, rank, 3);
    return failures;
  };
  EXPECT_THAT(run_ranks(3, rank_main), testing::Each(0));
  EXPECT_THAT(left_behind(job), testing::IsEmpty());
}

// Node 1 swaps a word to 1 ("held") and is killed. The other nodes read the word, add to it, find that
// SENDs to node 1 fail, and end regularly.
coro::Task<void> hold_and_die(Node* at) {
  Node& node = *at;
  const Completion held = co_await node.worker->cas(node.remote[1], 64, 0, 1);
  EXPECT_OR_FAIL(held.ok());
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

coro::Task<void> outlive(Node* at) {
  Node& node = *at;
  Worker& worker = *node.worker;
  const LocalSlice here{node.memory, 128};
  const Nanos patience = worker.now() + 20 * second;
  while (load_word(here.data()) == 0 && worker.now() < patience) {
    const Completion read = co_await worker.read(node.remote[1], 64, here, 8);
    EXPECT_OR_FAIL(read.ok());
  }
  while (worker.connected(1) && worker.now() < patience) {
    const Nanos soon = worker.now() + 1'000'000;
    co_await worker.sleep_until(soon);
  }
  EXPECT_OR_FAIL(!worker.connected(1));
  // the memory of the dead node is still mapped
  const Completion taken = co_await worker.faa(node.remote[1], 64, 10);
  EXPECT_OR_FAIL(taken.ok() && taken.result % 10 == 1);
  const WorkRequest request = message_to(1, here);
  const Completion sent = co_await worker.execute(request);
  EXPECT_OR_FAIL(sent.status == WcStatus::retry_exceeded);
  const WatchWord never{node.memory, 256, ~0ull, 5, true, NodeId{1}};
  const WatchOutcome outcome = co_await worker.watch(never, patience);
  EXPECT_OR_FAIL(outcome == WatchOutcome::link_down);
  const Nanos deadline = worker.now() + 1'000'000;
  const bool connected = co_await worker.reconnect(1, deadline);
  EXPECT_OR_FAIL(!connected);
}

int rank_with_a_death(const std::string& job, std::uint32_t rank) {
  Node node;
  if (!make_node(node, job, rank, 3) || !exchange(node)) return 100;
  node.fabric->start(*node.worker, rank == 1 ? hold_and_die(&node) : outlive(&node));
  EXPECT_OR_FAIL(node.fabric->run().value() == RunEnd::finished);
  EXPECT_OR_FAIL(node.fabric->barrier("end", 20 * second).has_value());
  const auto texts = node.fabric->gather("rank " + std::to_string(rank), 20 * second);
  EXPECT_OR_FAIL(texts.has_value());
  if (rank == 0) EXPECT_OR_FAIL((*texts == std::vector<std::string>{"rank 0", "", "rank 2"}));
  EXPECT_OR_FAIL(node.fabric->fence(1).has_value());
  EXPECT_OR_FAIL(!node.fabric->fence(0).has_value());
  const FabricReport report = node.fabric->report();
  EXPECT_OR_FAIL(report.nodes[1].is_lost && !report.nodes[0].is_lost && !report.nodes[2].is_lost);
  return node.failures;
}

TEST(ShmProcesses, AKilledProcessDoesNotStopTheOthers) {
  const std::string job = job_name();
  const auto rank_main = [&](std::uint32_t rank) {
    cluster::SuperviseConfig config;
    config.label = "node " + std::to_string(rank);
    config.on_killed = [&, rank](pid_t, int) { shm::mark_lost(job, rank); };
    return cluster::supervise([&, rank] { return rank_with_a_death(job, rank); }, config);
  };
  EXPECT_THAT(run_ranks(3, rank_main), testing::Each(0));
  EXPECT_THAT(left_behind(job), testing::IsEmpty());
}

// Without a supervisor the other processes detect a death by the process id.
TEST(ShmProcesses, ADeadProcessIsFoundWithoutASupervisor) {
  const std::string job = job_name();
  const auto rank_main = [&](std::uint32_t rank) { return rank_with_a_death(job, rank); };
  EXPECT_EQ(run_ranks(3, rank_main), (std::vector<int>{0, -SIGKILL, 0}));
  EXPECT_THAT(left_behind(job), testing::IsEmpty());
}

TEST(ShmProcesses, ABarrierNamesWhoIsMissing) {
  const std::string job = job_name();
  int gave_up[2];
  ASSERT_EQ(pipe(gave_up), 0);
  const auto rank_main = [&](std::uint32_t rank) {
    Node node;
    if (!make_node(node, job, rank, 3)) return 100;
    char word = 'x';
    if (rank == 2) {  // rank 2 does not call barrier(), and stays until the other ranks' calls have timed out
      for (int others = 0; others < 2; ++others) EXPECT_OR_FAIL(read(gave_up[0], &word, 1) == 1);
      return node.failures;
    }
    const auto met = node.fabric->barrier("warm-up", 100'000'000);
    EXPECT_OR_FAIL(write(gave_up[1], &word, 1) == 1);
    EXPECT_OR_FAIL(!met && met.error().code == ErrorCode::timed_out);
    EXPECT_OR_FAIL(!met && met.error().message == "warm-up: node 2 did not come within 100ms");
    return node.failures;
  };
  EXPECT_THAT(run_ranks(3, rank_main), testing::Each(0));
  close(gave_up[0]);
  close(gave_up[1]);
}

TEST(ShmProcesses, ARankThatLeavesEarlyIsNamedAtOnce) {
  const std::string job = job_name();
  const auto rank_main = [&](std::uint32_t rank) {
    Node node;
    if (!make_node(node, job, rank, 2)) return 100;
    if (rank == 1) return 0;
    const auto met = node.fabric->exchange(30 * second);
    EXPECT_OR_FAIL(!met && met.error().message.find("node 1 has left") != std::string::npos);
    return node.failures;
  };
  EXPECT_THAT(run_ranks(2, rank_main), testing::Each(0));
}

TEST(ShmProcesses, TheNextRunRemovesWhatADeadJobLeft) {
  const std::string dead = job_name(), next = job_name();
  const auto dies = [&](std::uint32_t rank) {
    Node node;
    if (!make_node(node, dead, rank, 2)) return 100;
    kill(getpid(), SIGKILL);  // dies before the exchange, while its shared-memory objects still have names
    return 1;
  };
  EXPECT_EQ(run_ranks(1, dies), std::vector<int>{-SIGKILL});
  // what a process that died before the exchange leaves behind: control block, region and receive area
  EXPECT_THAT(left_behind(dead), testing::SizeIs(3));
  EXPECT_THAT(run_ranks(2, [&](std::uint32_t rank) { return rank_that_works(next, rank, 2); }),
              testing::Each(0));
  EXPECT_THAT(left_behind(dead), testing::IsEmpty());
  EXPECT_THAT(left_behind(next), testing::IsEmpty());
}

TEST(ShmProcesses, ARunningJobsNameIsRefused) {
  const std::string job = job_name();
  Node node;
  ASSERT_TRUE(make_node(node, job, 0, 2));
  const auto second_try = shm::make_shm({.nodes = 2, .rank = 0, .ranks = 2, .job = job});
  ASSERT_FALSE(second_try.has_value());
  EXPECT_THAT(second_try.error().message, testing::HasSubstr("a job of this name is running"));
  EXPECT_THAT(left_behind(job), testing::SizeIs(3));
}

TEST(ShmProcesses, ARegionThatDoesNotFitIsRefused) {
  const std::string job = job_name();
  Node node;
  ASSERT_TRUE(make_node(node, job, 0, 2));
  const auto huge = node.fabric->register_region(0, {"huge", 1ull << 50, true, false, false, {}});
  ASSERT_FALSE(huge.has_value());
  EXPECT_THAT(huge.error().message, testing::HasSubstr("huge"));
}

}  // namespace
}  // namespace loch::fabric
