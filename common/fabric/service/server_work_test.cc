// Tests that a server pays the assumed work once for each request that it finds, and for nothing else.
#include "common/fabric/service/server_work.h"

#include <gtest/gtest.h>

#include "common/fabric/memory.h"
#include "tests/support/fabrics.h"

namespace loch::fabric {
namespace {

constexpr Nanos assumed = 700;
constexpr std::uint64_t asked_requests = 20;

struct Assumed {
  explicit Assumed(Nanos work) {
    inner = support::make_fabric("sim", {.nodes = 2, .is_plain = true});
    fabric = work > 0 ? assume_server_work(std::move(inner), work) : std::move(inner);
    for (NodeId node = 0; node < 2; ++node)
      memory[node] = fabric->register_region(node, {"memory", 1 << 12, true, true, true, {}}).value();
    server = fabric->add_worker({0, Role::server, 0, -1, "server"}).value();
    client = fabric->add_worker({1, Role::client, 0, -1, "client"}).value();
    support::check(fabric->exchange(1'000'000'000));
    remote = fabric->lookup(0, "memory").value();
  }
  std::unique_ptr<Fabric> inner, fabric;
  Region* memory[2] = {};
  RemoteRegion remote;
  Worker* server = nullptr;
  Worker* client = nullptr;
  std::uint64_t seen = 0;
  Nanos found[asked_requests + 1] = {};  // when the server's coroutine went on after each wait
};

coro::Task<void> look(Assumed* all) {
  WatchSet set{.region = all->memory[0], .offset = 0, .stride = 64, .count = 1};
  set.ready = [](void* seen, std::uint32_t /*index*/, std::uint64_t word) {
    return word > *static_cast<std::uint64_t*>(seen);
  };
  set.context = &all->seen;
  for (std::uint64_t done = 0; done < asked_requests; ++done) {
    const WatchAny news = co_await all->server->watch_any(set, 0);
    if (news.outcome != WatchOutcome::ready) co_return;
    all->seen = load_word(all->memory[0]->at(0));
    all->found[done] = all->server->now();
  }
  const WatchAny none = co_await all->server->watch_any(set, 0, all->server->now() + 1000);
  EXPECT_EQ(none.outcome, WatchOutcome::timed_out);
  all->found[asked_requests] = all->server->now();
}

coro::Task<void> ask(Assumed* all) {
  for (std::uint64_t i = 0; i < asked_requests; ++i) {
    co_await all->client->sleep_until(Nanos{20'000} * static_cast<Nanos>(i + 1));
    store_word_release(all->memory[1]->at(0), i + 1);
    const Completion done = co_await all->client->write(all->remote, 0, {all->memory[1], 0}, 8);
    EXPECT_TRUE(done.ok());
  }
  co_await all->client->sleep_until(all->client->now() +
                                    20'000);  // until the server's last wait has timed out
}

void run(Assumed& all) {
  all.fabric->start(*all.server, look(&all));
  all.fabric->start(*all.client, ask(&all));
  EXPECT_TRUE(all.fabric->run().has_value());
}

TEST(ServerWork, EachRequestPaysOnceAndAWaitThatFindsNoneDoesNot) {
  Assumed without(0), with(assumed);
  run(without);
  run(with);
  for (std::uint64_t i = 0; i < asked_requests; ++i)
    EXPECT_EQ(with.found[i] - without.found[i], assumed) << i;
  // the last wait begins later by what the last request paid, and ends after its own time alone
  EXPECT_EQ(with.found[asked_requests] - with.found[asked_requests - 1],
            without.found[asked_requests] - without.found[asked_requests - 1]);
}

}  // namespace
}  // namespace loch::fabric
