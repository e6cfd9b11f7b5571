// One rank of a launch, for launch_test: adds to a counter on every node, as a supervised process. With the
// argument N, the process of node N kills itself half-way. Exit status 0: this rank's checks passed.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "common/cluster/launch_env.h"
#include "common/cluster/supervise.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

constexpr Nanos patience = 30'000'000'000;
constexpr std::uint64_t additions = 1000;

coro::Task<void> add(Fabric* fabric, Worker* worker, bool dies) {
  for (std::uint64_t i = 0; i < additions; ++i) {
    if (dies && i == additions / 2) kill(getpid(), SIGKILL);
    for (std::uint32_t node = 0; node < fabric->nodes(); ++node) {
      const RemoteRegion remote = fabric->lookup(static_cast<NodeId>(node), "memory").value();
      const Completion done = co_await worker->faa(remote, 0, 1);
      LOCH_CHECK(done.ok(), "FAA: {}", name(done.status));
    }
  }
}

int work(const cluster::LaunchEnv& env, long victim) {
  auto made = shm::make_shm({.nodes = env.ranks, .rank = env.rank, .ranks = env.ranks, .job = env.job});
  if (!made) {
    fmt::print(stderr, "node {}: {}\n", env.rank, made.error().message);
    return 1;
  }
  Fabric& fabric = **made;
  const auto self = static_cast<NodeId>(env.rank);
  Region* memory = fabric.register_region(self, {"memory", 4096, true, true, true, {}}).value();
  Worker* worker = fabric.add_worker({self, Role::client, 0, -1, "client"}).value();
  if (!fabric.exchange(patience)) return 1;
  fabric.start(*worker, add(&fabric, worker, victim == static_cast<long>(env.rank)));
  if (fabric.run().value() != RunEnd::finished) return 1;
  if (!fabric.barrier("end", patience)) return 1;
  const std::uint64_t survivors = env.ranks - (victim >= 0 ? 1 : 0);
  const std::uint64_t expected = survivors * additions + (victim >= 0 ? additions / 2 : 0);
  const std::uint64_t counted = load_word(memory->at(0));
  const auto texts = fabric.gather(fmt::format("node {} counted {}", env.rank, counted), patience);
  if (!texts || counted != expected) return 1;
  for (const std::string& text : *texts) fmt::print("[{}]\n", text);
  return 0;
}

}  // namespace
}  // namespace loch::fabric

int main(int argc, char** argv) {
  const auto env = loch::cluster::launch_env();
  if (!env) {
    fmt::print(stderr, "{}\n", env.error().message);
    return 2;
  }
  const long victim = argc > 1 ? std::strtol(argv[1], nullptr, 10) : -1;
  loch::cluster::SuperviseConfig config;
  config.label = fmt::format("node {}", env->rank);
  config.on_killed = [&](pid_t, int) { loch::fabric::shm::mark_lost(env->job, env->rank); };
  return loch::cluster::supervise([&] { return loch::fabric::work(*env, victim); }, config);
}
