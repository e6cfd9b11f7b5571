// Tests the limit of outstanding work requests: that it holds, that no request waits for ever or is posted
// out of order, and that the best limit is found.
#include "common/fabric/throttle/throttle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "common/fabric/decorator.h"
#include "common/fabric/memory.h"
#include "common/fabric/throttle/tuner.h"
#include "tests/support/fabrics.h"

namespace loch::fabric {
namespace {

// ---- Finding the limit ----------------------------------------------------------------------------

// Lets a worker complete `rate(limit)` requests a microsecond for `span` microseconds, with the limit that
// the tuner has set.
template <typename Rate>
void work(Tuner& tuner, std::atomic<std::uint64_t>* completed, Nanos* now, int span, const Rate& rate) {
  for (int i = 0; i < span; ++i) {
    *now += 1000;
    *completed += rate(tuner.limit());
    tuner.look(*now);
  }
}

TEST(Tuner, TriesEachLimitAndKeepsTheBest) {
  Tuner tuner(0, 10'000);
  std::atomic<std::uint64_t>* completed = tuner.add_worker();
  const auto rate = [](std::uint32_t limit) { return limit == 8 ? 20u : limit == 256 ? 10u : 15u; };
  Nanos now = 0;
  std::vector<std::uint32_t> seen;
  for (int i = 0; i < 60; ++i) {
    work(tuner, completed, &now, 1, rate);
    if (seen.empty() || seen.back() != tuner.limit()) seen.push_back(tuner.limit());
  }
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{4, 6, 8, 10, 12, 256}));
  work(tuner, completed, &now, 10, rate);
  EXPECT_EQ(tuner.limit(), 8u);
}

TEST(Tuner, KeepsTheBestForSixtySamplesAndTriesAgain) {
  Tuner tuner(0, 10'000);
  std::atomic<std::uint64_t>* completed = tuner.add_worker();
  Nanos now = 0;
  work(tuner, completed, &now, 65, [](std::uint32_t limit) { return limit == 6 ? 20u : 10u; });
  EXPECT_EQ(tuner.limit(), 6u);
  // the rate falls, but the tuner measures no rate while it keeps the best limit
  work(tuner, completed, &now, 590, [](std::uint32_t) { return 1u; });
  EXPECT_EQ(tuner.limit(), 6u);
  work(tuner, completed, &now, 80, [](std::uint32_t limit) { return limit == 12 ? 20u : 10u; });
  EXPECT_EQ(tuner.limit(), 12u);
}

TEST(Tuner, TakesNoLimitIfThatIsAlmostAsGood) {
  for (const auto& [without, expected] : {std::pair{96u, 256u}, std::pair{94u, 10u}}) {
    Tuner tuner(0, 10'000);
    std::atomic<std::uint64_t>* completed = tuner.add_worker();
    Nanos now = 0;
    work(tuner, completed, &now, 70, [without](std::uint32_t limit) {
      return limit == 256 ? without : limit == 10 ? 100u : 50u;
    });
    EXPECT_EQ(tuner.limit(), expected) << without;
  }
}

TEST(Tuner, AFixedLimitStays) {
  Tuner tuner(7, 10);
  for (Nanos now = 0; now < 10'000; now += 100) tuner.look(now);
  EXPECT_EQ(tuner.limit(), 7u);
}

TEST(Throttle, TheFlagIsOffAdaptiveOrANumber) {
  EXPECT_EQ(parse_throttle("off").value(), std::nullopt);
  EXPECT_EQ(parse_throttle("adaptive").value(), 0u);
  EXPECT_EQ(parse_throttle("12").value(), 12u);
  for (const char* bad : {"", "0", "-1", "12x", "on", "99999999999"})
    EXPECT_FALSE(parse_throttle(bad).has_value()) << bad;
}

// ---- Holding requests back ------------------------------------------------------------------------

// Lies below the throttling worker and records how many requests are outstanding, and in which order they are
// posted.
class WatchedWorker final : public WrappedWorker {
 public:
  using WrappedWorker::WrappedWorker;
  void do_post(WorkRequest* chain) override {
    for (WorkRequest* r = chain; r != nullptr; r = r->next) {
      order.push_back(r->operand);
      if (r->sink == nullptr) continue;
      most = std::max(most, ++outstanding);
      Between& between = sinks.emplace_back();
      between.owner = this;
      between.original = r->sink;
      between.fn = [](CompletionSink* self, WorkRequest& done) {
        auto* own = static_cast<Between*>(self);
        --own->owner->outstanding;
        done.sink = own->original;
        done.sink->fn(done.sink, done);
      };
      r->sink = &between;
    }
    WrappedWorker::do_post(chain);
  }
  void do_post_detached(const WorkRequest& request) override {
    order.push_back(request.operand);
    WrappedWorker::do_post_detached(request);
  }
  struct Between : CompletionSink {
    WatchedWorker* owner = nullptr;
    CompletionSink* original = nullptr;
  };
  int outstanding = 0, most = 0;
  std::vector<std::uint64_t> order;  // the operands of the posted requests
  std::deque<Between> sinks;
};

class WatchedFabric final : public WrappedFabric<WatchedWorker> {
 public:
  using WrappedFabric::WrappedFabric;
  [[nodiscard]] const std::vector<std::unique_ptr<WatchedWorker>>& workers() const { return wrappers(); }

 protected:
  [[nodiscard]] std::unique_ptr<WatchedWorker> wrap(Worker* inner) override {
    return std::make_unique<WatchedWorker>(inner);
  }
};

// Two nodes with a region each; the worker of node 0 posts to node 1 through a throttled fabric.
struct Limited {
  explicit Limited(std::uint32_t limit, Nanos sample = 8'000'000) {
    auto below = std::make_unique<WatchedFabric>(sim::make_sim(support::sim_config(2)).value());
    watched = below.get();
    fabric = throttle_requests(std::move(below), {.limit = limit, .sample = sample});
    for (NodeId node = 0; node < 2; ++node)
      memory[node] = fabric->register_region(node, {"memory", 1 << 16, true, true, true, {}}).value();
    worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
    support::check(fabric->exchange(1));
    remote = fabric->lookup(1, "memory").value();
  }
  [[nodiscard]] WorkRequest request(Verb verb, std::uint64_t number, std::uint64_t offset = 0) const {
    WorkRequest r = one_sided(verb, remote, offset, {memory[0], 64 * number}, 8, nullptr);
    r.operand = number;
    return r;
  }
  void run(coro::Task<void> main) {
    fabric->start(*worker, std::move(main));
    EXPECT_EQ(fabric->run().value(), RunEnd::finished);
  }
  [[nodiscard]] const WatchedWorker& seen() const { return *watched->workers().front(); }
  [[nodiscard]] double counter(const char* name) const { return fabric->report().nodes[0].counters.at(name); }

  WatchedFabric* watched = nullptr;
  std::unique_ptr<Fabric> fabric;
  Region* memory[2] = {};
  Worker* worker = nullptr;
  RemoteRegion remote;
};

coro::Task<void> post_one(Limited* all, Verb verb, std::uint64_t number) {
  const WorkRequest request = all->request(verb, number);
  const Completion done = co_await all->worker->execute(request);
  EXPECT_TRUE(done.ok());
}
coro::Task<void> post_many(Limited* all, std::uint64_t count) {
  constexpr std::array verbs{Verb::read, Verb::write, Verb::faa};
  coro::Scope scope(all->worker->run_queue());
  for (std::uint64_t i = 0; i < count; ++i) scope.spawn(post_one(all, verbs[i % verbs.size()], i));
  co_await scope.join();
}

TEST(Throttle, NoMoreThanTheLimitAreOutstanding) {
  for (const std::uint32_t limit : {1u, 3u, 8u}) {
    Limited all(limit);
    all.run(post_many(&all, 50));
    EXPECT_EQ(all.seen().most, static_cast<int>(limit));
    EXPECT_EQ(all.seen().order.size(), 50u);
    EXPECT_TRUE(std::ranges::is_sorted(all.seen().order)) << "first come, first served";
    EXPECT_EQ(all.counter("throttle.waits"), 50 - limit);
    EXPECT_EQ(all.counter("throttle.limit"), limit);
  }
}

// Posts a chain of `length` requests of which only the last is signaled.
coro::Task<void> post_chain(Limited* all, std::uint64_t first, std::uint32_t length) {
  std::array<WorkRequest, 8> requests;
  const std::span<WorkRequest> chain(requests.data(), length);
  for (std::uint32_t i = 0; i < length; ++i) {
    chain[i] = all->request(Verb::write, first + i);
    chain[i].is_signaled = i + 1 == length;
  }
  const WcStatus status = co_await all->worker->post_and_wait(chain);
  EXPECT_EQ(status, WcStatus::success);
}
coro::Task<void> post_chains(Limited* all, std::uint64_t chains, std::uint32_t length) {
  coro::Scope scope(all->worker->run_queue());
  for (std::uint64_t i = 0; i < chains; ++i) scope.spawn(post_chain(all, i * length, length));
  co_await scope.join();
}

TEST(Throttle, AChainTakesAsManyCreditsAsItHasRequests) {
  Limited all(8);
  all.run(post_chains(&all, 10, 4));
  EXPECT_EQ(all.seen().most, 2) << "two chains of four, one of each signaled";
  EXPECT_EQ(all.counter("throttle.waits"), 8);
}

TEST(Throttle, AChainLongerThanTheLimitGoesAlone) {
  Limited all(3);
  all.run(post_chains(&all, 5, 8));
  EXPECT_EQ(all.seen().most, 1);
  EXPECT_EQ(all.seen().order.size(), 40u);
}

// Three READs one after another; request i of coroutine c has number 10c + i.
coro::Task<void> post_three(Limited* all, std::uint64_t coroutine) {
  for (std::uint64_t i = 0; i < 3; ++i) co_await post_one(all, Verb::read, 10 * coroutine + i);
}
coro::Task<void> post_threes(Limited* all, std::uint64_t coroutines) {
  coro::Scope scope(all->worker->run_queue());
  for (std::uint64_t i = 0; i < coroutines; ++i) scope.spawn(post_three(all, i));
  co_await scope.join();
}

TEST(Throttle, ACoroutineGoesOnBeforeAnotherBegins) {
  Limited all(1);
  all.run(post_threes(&all, 4));
  EXPECT_EQ(all.seen().order, (std::vector<std::uint64_t>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}));
  EXPECT_EQ(all.seen().most, 1);
}

coro::Task<void> post_without_end(Limited* all, const bool* is_over) {
  while (!*is_over) co_await post_one(all, Verb::read, 1);
}

TEST(Throttle, NoneWaitsForEver) {
  Limited all(1);
  const auto both = [](Limited* of) -> coro::Task<void> {
    bool is_over = false;
    coro::Scope scope(of->worker->run_queue());
    scope.spawn(post_without_end(of, &is_over));
    // by then the other coroutine's first request is outstanding
    const Nanos soon = of->worker->now() + 600;
    co_await of->worker->spin_until(soon);
    co_await post_one(of, Verb::read, 2);
    is_over = true;
    co_await scope.join();
  };
  all.run(both(&all));
  const std::vector<std::uint64_t>& order = all.seen().order;
  const auto at = std::ranges::find(order, 2u) - order.begin();
  EXPECT_GT(at, 1000);
  EXPECT_LT(at, 1030);
}

// Posts a chain that ends unsignaled behind one that is outstanding, and another READ when that has
// completed.
coro::Task<void> post_behind_unsignaled(Limited* all) {
  std::array<WorkRequest, 2> chain{all->request(Verb::write, 5), all->request(Verb::write, 6)};
  chain[0].next = &chain[1];
  coro::Scope scope(all->worker->run_queue());
  scope.spawn(post_three(all, 0));
  scope.spawn(post_one(all, Verb::read, 4));
  const Nanos soon = all->worker->now() + 600;
  co_await all->worker->spin_until(soon);
  all->worker->post(chain.data());
  co_await scope.join();
}

TEST(Throttle, AChainThatEndsUnsignaledKeepsItsPlace) {
  Limited all(1);
  all.run(post_behind_unsignaled(&all));
  EXPECT_EQ(all.seen().order, (std::vector<std::uint64_t>{0, 4, 5, 6, 1, 2}));
}

coro::Task<void> post_detached_behind(Limited* all) {
  coro::Scope scope(all->worker->run_queue());
  for (std::uint64_t i = 0; i < 4; ++i) scope.spawn(post_one(all, Verb::write, i));
  // by then each of the four requests is posted or held back
  const Nanos soon = all->worker->now() + 600;
  co_await all->worker->spin_until(soon);
  all->worker->post_detached(all->request(Verb::write, 4));
  co_await scope.join();
}

TEST(Throttle, ADetachedRequestOvertakesNothingOnItsQueuePair) {
  Limited all(1);
  for (std::uint64_t i = 0; i < 5; ++i) store_word_release(all.memory[0]->at(64 * i), 100 + i);
  all.run(post_detached_behind(&all));
  EXPECT_EQ(all.seen().order, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(load_word(all.memory[1]->at(0)), 104u);
}

coro::Task<void> lose_peer(Limited* all) {
  coro::Scope scope(all->worker->run_queue());
  const auto one = [](Limited* of, std::uint64_t number, int* failed) -> coro::Task<void> {
    WorkRequest request = of->request(Verb::read, number);
    request.remote.rkey ^= 1;  // a wrong rkey: the responder refuses the request, which breaks the connection
    const Completion done = co_await of->worker->execute(request);
    *failed += !done.ok();
  };
  int failed = 0;
  for (std::uint64_t i = 0; i < 20; ++i) scope.spawn(one(all, i, &failed));
  co_await scope.join();
  EXPECT_EQ(failed, 20);
  const bool is_back = co_await all->worker->reconnect(1, all->worker->now() + 10'000'000);
  EXPECT_TRUE(is_back);
  co_await post_many(all, 10);
}

TEST(Throttle, FailedRequestsGiveTheirCreditsBack) {
  Limited all(2);
  all.run(lose_peer(&all));
  EXPECT_EQ(all.seen().outstanding, 0);
  EXPECT_EQ(all.seen().order.size(), 30u);
}

TEST(Throttle, TheLimitIsFoundWhileRequestsComplete) {
  Limited all(0, 2'000);
  const auto rounds = [](Limited* of) -> coro::Task<void> {
    for (int i = 0; i < 40; ++i) co_await post_many(of, 100);
  };
  all.run(rounds(&all));
  const double limit = all.counter("throttle.limit");
  EXPECT_NE(std::ranges::find(Tuner::candidates, static_cast<std::uint32_t>(limit)), Tuner::candidates.end());
  EXPECT_GT(all.seen().most, 12) << "the last candidate is as good as no limit, and was tried";
}

}  // namespace
}  // namespace loch::fabric
