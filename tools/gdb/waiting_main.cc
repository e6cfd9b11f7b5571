// A program for tests of gdb: it stops at stop_here() while coroutines of several workers wait for a READ, a
// timer, a watch, a message, the children of a Scope, and a Task. test_gdb.py asks gdb for these coroutines,
// and finds their lines by the comments "waits: NAME". Argument: the fabric, sim or shm.
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/fabric/count/count.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"

extern "C" [[gnu::noinline]] void stop_here() { asm volatile("" ::: "memory"); }

namespace waiting {

using namespace loch;
using namespace loch::fabric;

constexpr std::uint64_t region_bytes = 64 * 1024;
constexpr Nanos soon = 20'000'000;     // ns after which every coroutine has suspended
constexpr Nanos late = 2'000'000'000;  // ns, long after the program has stopped
constexpr int waiting_coroutines = 5;

struct Cluster {
  std::unique_ptr<Fabric> fabric;
  Worker* reader = nullptr;    // on node 0
  Worker* stopper = nullptr;   // on node 1
  Worker* server = nullptr;    // on node 1
  Region* memory = nullptr;    // region of node 0
  RemoteRegion remote;         // region of node 1
  bool is_over = false;        // whether read_far() has to end; used by the reader's thread alone
  std::atomic<int> begun = 0;  // number of coroutines that are about to wait
  std::atomic<bool> has_stopped = false;
};

coro::Task<void> read_far(Cluster* cluster) {
  Worker& worker = *cluster->reader;
  ++cluster->begun;
  const LocalSlice landing{cluster->memory, 1024};
  while (!cluster->is_over) {
    const Completion done = co_await worker.read(cluster->remote, 0, landing, 32768);  // waits: read
    LOCH_CHECK(done.ok(), "the READ failed");
  }
}

coro::Task<void> sleep_long(Cluster* cluster) {
  Worker& worker = *cluster->reader;
  const Nanos first = worker.now() + 1'000;
  co_await worker.sleep_until(first);
  ++cluster->begun;
  while (!cluster->has_stopped) {
    const Nanos later = worker.now() + late;
    co_await worker.sleep_until(later);  // waits: timer
  }
  cluster->is_over = true;
  worker.store_word(*cluster->memory, 8, 1);
}

coro::Task<WatchOutcome> watch_word(Cluster* cluster, std::uint64_t offset) {
  ++cluster->begun;
  const WatchWord word{cluster->memory, offset, ~std::uint64_t{0}, 1, true, std::nullopt};
  const WatchOutcome outcome = co_await cluster->reader->watch(word);  // waits: watch
  co_return outcome;
}

coro::Task<void> watch_through_a_task(Cluster* cluster) {
  const WatchOutcome outcome = co_await watch_word(cluster, 8);  // waits: task
  LOCH_CHECK(outcome == WatchOutcome::ready, "the word was not stored");
}

coro::Task<void> reader_main(Cluster* cluster) {
  coro::Scope scope(cluster->reader->run_queue());
  scope.spawn(read_far(cluster));
  scope.spawn(sleep_long(cluster));
  scope.spawn(watch_through_a_task(cluster));
  scope.spawn(watch_through_a_task(cluster));
  co_await scope.join();  // waits: join
}

coro::Task<void> stopper_main(Cluster* cluster) {
  Worker& worker = *cluster->stopper;
  bool have_all_begun = false;
  while (!have_all_begun) {
    have_all_begun = cluster->begun == waiting_coroutines;
    const Nanos at = worker.now() + soon;
    co_await worker.sleep_until(at);
  }
  stop_here();
  cluster->has_stopped = true;
}

coro::Task<void> server_main(Cluster* cluster) {
  ++cluster->begun;
  const Received message = co_await cluster->server->receive(Transport::rc);  // waits: receive
  LOCH_CHECK(message.outcome == Received::Outcome::stopping, "nobody sends here");
}

template <typename T>
T must(Result<T> result) {
  LOCH_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(*result);
}

std::unique_ptr<Fabric> make(const std::string& name) {
  if (name == "shm") return must(shm::make_shm({.nodes = 2, .seed = 1}));
  sim::SimConfig config;
  config.nodes = 2;
  config.hardware = must(sim::load_hardware("connectx3-10gbe"));
  return must(sim::make_sim(config));
}

int run(const std::string& name) {
  Cluster cluster;
  cluster.fabric = count_requests(make(name), CountConfig{});
  RegionSpec spec{.name = "memory", .bytes = region_bytes, .remote_read = true};
  cluster.memory = must(cluster.fabric->register_region(0, spec));
  static_cast<void>(must(cluster.fabric->register_region(1, spec)));
  cluster.reader = must(cluster.fabric->add_worker({.node = 0, .name = "reader"}));
  cluster.stopper = must(cluster.fabric->add_worker({.node = 1, .name = "stopper"}));
  cluster.server =
      must(cluster.fabric->add_worker({.node = 1, .role = Role::server, .index = 1, .name = "server"}));
  const auto exchanged = cluster.fabric->exchange(10'000'000'000);
  LOCH_CHECK(exchanged.has_value(), "{}", exchanged.error().message);
  cluster.remote = must(cluster.fabric->lookup(1, "memory"));
  cluster.fabric->start(*cluster.reader, reader_main(&cluster));
  cluster.fabric->start(*cluster.stopper, stopper_main(&cluster));
  cluster.fabric->start(*cluster.server, server_main(&cluster));
  const RunEnd end = must(cluster.fabric->run());
  fmt::print("{}\n", end == RunEnd::finished ? "finished" : "not finished");
  return end == RunEnd::finished ? 0 : 1;
}

}  // namespace waiting

int main(int argc, char** argv) { return waiting::run(argc > 1 ? argv[1] : "sim"); }
