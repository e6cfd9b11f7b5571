// Tests that a run ends within its limits although clients or workers never end by themselves, and says
// whose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

constexpr Nanos tenth = 100'000'000;

coro::Task<void> end_at_once() { co_return; }

// Waits for a word that nobody stores: until the run is given up.
coro::Task<void> await_nothing(Worker* worker, Region* memory) {
  const WatchWord never{memory, 0, ~0ull, 1, true, std::nullopt};
  const WatchOutcome outcome = co_await worker->watch(never, forever);
  EXPECT_EQ(outcome, WatchOutcome::stopping);
}

// Keeps its thread for ever, whatever becomes of the run.
coro::Task<void> never_give_back() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  co_return;
}

struct Cluster {
  std::unique_ptr<Fabric> fabric;
  Region* memory = nullptr;
  Worker* worker = nullptr;
};

// A fabric with a region and a worker on node `at`.
Cluster cluster_of(const shm::ShmConfig& config, NodeId at) {
  Cluster made{shm::make_shm(config).value()};
  made.memory = made.fabric->register_region(at, {"memory", 4096, true, true, true, {}}).value();
  made.worker = made.fabric->add_worker({at, Role::client, 0, -1, "client"}).value();
  EXPECT_TRUE(made.fabric->exchange(100 * tenth).has_value());
  return made;
}

TEST(ShmDeadlines, ARunThatTakesTooLongNamesTheNodeOfItsClients) {
  Cluster all = cluster_of({.nodes = 3, .run_most = tenth}, 1);
  all.fabric->start(*all.worker, await_nothing(all.worker, all.memory));
  const Result<RunEnd> end = all.fabric->run();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::timed_out);
  EXPECT_EQ(end.error().message, "shm: the clients of node 1 have not ended, long after the run's time");
}

// The client of rank 0 ends at once, that of rank 1 waits until its own process gives it up. `laggards_most`:
// ns for which this rank waits for the other's clients and its own.
int rank_of_two(const std::string& job, std::uint32_t rank, Nanos laggards_most) {
  const shm::ShmConfig config{
      .nodes = 2, .rank = rank, .ranks = 2, .job = job, .laggards_most = laggards_most};
  Cluster mine = cluster_of(config, static_cast<NodeId>(rank));
  mine.fabric->start(*mine.worker, rank == 0 ? end_at_once() : await_nothing(mine.worker, mine.memory));
  const Result<RunEnd> end = mine.fabric->run();
  const char* expected =
      "shm: the clients of node 1 have not ended, long after those of the others or the run's time";
  return !end && end.error().message == expected ? 0 : 1;
}

// Only the process of `impatient` gives up: did both, the one that a busy machine holds up would see that the
// other has ended, and have nothing to report.
void expect_named_by(std::uint32_t impatient) {
  const std::string job = "deadlines-" + std::to_string(getpid());
  pid_t processes[2];
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    processes[rank] = fork();
    if (processes[rank] != 0) continue;
    alarm(60);
    _exit(rank_of_two(job, rank, rank == impatient ? tenth : 1000 * tenth));
  }
  int status = -1;
  ASSERT_EQ(waitpid(processes[impatient], &status, 0), processes[impatient]);
  EXPECT_EQ(status, 0);
  kill(processes[1 - impatient], SIGKILL);
  ASSERT_EQ(waitpid(processes[1 - impatient], &status, 0), processes[1 - impatient]);
}

TEST(ShmDeadlines, AProcessWhoseClientsHaveEndedNamesTheNodeThatIsLate) { expect_named_by(0); }

TEST(ShmDeadlines, AProcessNamesItsOwnNodeThatIsLate) { expect_named_by(1); }

TEST(ShmDeadlinesDeathTest, WorkersThatKeepTheirThreadsEndWithTheProcess) {
  const auto run = [] {
    alarm(60);
    Cluster all = cluster_of({.run_most = tenth, .ended_most = tenth}, 0);
    all.fabric->start(*all.worker, never_give_back());
    static_cast<void>(all.fabric->run());
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1),
              "^shm: not ended 100ms after the end of the run: client of node 0\n$");
}

}  // namespace
}  // namespace loch::fabric
