// Tests that the measured time of a request is the time that its server worked on it, and nothing else.
#include "common/fabric/service/service_times.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "common/fabric/memory.h"
#include "tests/support/fabrics.h"

namespace loch::fabric {
namespace {

constexpr std::uint64_t requests = 40;
constexpr std::uint32_t slots = 4;
constexpr Nanos between = 20'000;  // time between two requests, in ns

// A server on node 0 that polls `slots` request slots and works `work` ns on each request, of which the
// client on node 1 sends one every `between` ns.
struct Served {
  explicit Served(const std::string& name) {
    inner = support::make_fabric(name, {.nodes = 2, .is_plain = true});
    fabric = measure_service_times(std::move(inner));
    for (NodeId node = 0; node < 2; ++node)
      memory[node] = fabric->register_region(node, {"memory", 1 << 12, true, true, true, {}}).value();
    server = fabric->add_worker({0, Role::server, 0, -1, "server"}).value();
    client = fabric->add_worker({1, Role::client, 0, -1, "client"}).value();
    support::check(fabric->exchange(1'000'000'000));
    for (NodeId node = 0; node < 2; ++node) remote[node] = fabric->lookup(node, "memory").value();
  }
  [[nodiscard]] std::map<std::string, double> run(Nanos work, bool replies,
                                                  std::uint64_t forget_at = requests);

  std::unique_ptr<Fabric> inner, fabric;
  Region* memory[2] = {};
  RemoteRegion remote[2];
  Worker* server = nullptr;
  Worker* client = nullptr;
  std::uint64_t seen[slots] = {};
  std::atomic<std::uint64_t> served = 0;  // requests that the server has finished
};

coro::Task<void> serve(Served* all, Nanos work, bool replies) {
  WatchSet set{.region = all->memory[0], .offset = 0, .stride = 64, .count = slots};
  set.ready = [](void* seen, std::uint32_t index, std::uint64_t word) {
    return word > static_cast<std::uint64_t*>(seen)[index];
  };
  set.context = all->seen;
  for (std::uint64_t done = 0; done < requests; ++done) {
    const WatchAny found = co_await all->server->watch_any(set, 0);
    if (found.outcome != WatchOutcome::ready) co_return;
    all->seen[found.index] = load_word(all->memory[0]->at(64 * found.index));
    co_await all->server->compute(work);
    all->served = done + 1;
    if (!replies) continue;
    WorkRequest reply = one_sided(Verb::write, all->remote[1], 2048, {all->memory[0], 1024}, 1024, nullptr);
    all->server->post_detached(reply);
  }
  // one more wait, which ends the last request
  const WatchAny last = co_await all->server->watch_any(set, 0, all->server->now() + 1000);
  EXPECT_NE(last.outcome, WatchOutcome::ready);
}

coro::Task<void> send(Served* all, std::uint64_t forget_at) {
  for (std::uint64_t i = 0; i < requests; ++i) {
    co_await all->client->sleep_until(all->client->now() + between);
    if (i == forget_at) all->fabric->reset_counters();
    store_word_release(all->memory[1]->at(0), i + 1);
    const Completion done =
        co_await all->client->write(all->remote[0], 64 * (i % slots), {all->memory[1], 0}, 8);
    EXPECT_TRUE(done.ok());
    while (all->served <= i) co_await all->client->sleep_until(all->client->now() + 1000);
  }
}

std::map<std::string, double> Served::run(Nanos work, bool replies, std::uint64_t forget_at) {
  fabric->start(*server, serve(this, work, replies));
  fabric->start(*client, send(this, forget_at));
  EXPECT_TRUE(fabric->run().has_value());
  const FabricReport report = fabric->report();
  EXPECT_FALSE(report.nodes[1].counters.contains("service.requests")) << "no server worker on node 1";
  return report.nodes[0].counters;
}

TEST(ServiceTimes, AreTheWorkAndNotTheWait) {
  for (const std::string& name : support::local_fabrics()) {
    Served all(name);
    const auto counters = all.run(5000, false);
    EXPECT_EQ(counters.at("service.requests"), requests) << name;
    EXPECT_GE(counters.at("service.median_ns"), 5000) << name;
    EXPECT_GE(counters.at("service.p90_ns"), counters.at("service.median_ns")) << name;
    EXPECT_LT(counters.at("service.posting_ns"), 1) << name << ": nothing is posted";
    if (name != "sim") continue;  // a thread may lose its core in real time
    EXPECT_LT(counters.at("service.median_ns"), 5000 + 500);
    EXPECT_EQ(counters.at("service.clock_ns"), 0);
  }
}

// Twice the work is measured as so much more; the slots that are polled in vain, and the time until the next
// request, are no part of it.
TEST(ServiceTimes, GrowWithTheWork) {
  Served little("sim"), much("sim");
  const double few = little.run(1000, true).at("service.median_ns");
  const double many = much.run(7000, true).at("service.median_ns");
  EXPECT_EQ(many - few, 6000);
}

TEST(ServiceTimes, PostingIsPartOfThemAndToldApart) {
  Served all("shm");
  const auto counters = all.run(2000, true);
  EXPECT_GT(counters.at("service.posting_ns"), 0);
  EXPECT_GE(counters.at("service.median_ns"), 2000 + counters.at("service.posting_ns") / 2);
}

TEST(ServiceTimes, AResetForgetsThem) {
  Served all("sim");
  const auto counters = all.run(1000, false, requests / 4);
  EXPECT_EQ(counters.at("service.requests"), requests - requests / 4);
}

}  // namespace
}  // namespace loch::fabric
