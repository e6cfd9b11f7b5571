// Requests chunks of memory blocks from nodes (ALLOC requests), and wakes the operations that wait for a
// block.
#include "common/chunks/client.h"

#include <cstring>
#include <utility>

#include "common/base/probe.h"
#include "common/chunks/wire.h"

namespace loch::chunks {

// Suspends an operation until the ALLOC request that is under way to its node has ended.
class Client::Turn {
 public:
  explicit Turn(Link& link) : link_(link) {}
  Turn(const Turn&) = delete;
  // If a Turn is destroyed while its operation waits, the worker was killed and the operation never runs
  // again.
  ~Turn() {
    if (waiter_) std::erase(link_.waiting, this);
  }
  [[nodiscard]] bool await_ready() const noexcept { return !link_.is_asking; }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    link_.waiting.push_back(this);
  }
  void await_resume() const noexcept {}
  [[nodiscard]] std::coroutine_handle<> take() { return std::exchange(waiter_, nullptr); }

 private:
  Link& link_;
  std::coroutine_handle<> waiter_;  // null: no operation waits
};

// While this object lives, the client may start requests ahead of need in the given scope.
class Client::Beside {
 public:
  Beside(Client& client, coro::Scope& scope) : client_(client) { client_.beside_ = &scope; }
  ~Beside() { client_.beside_ = nullptr; }
  Beside(const Beside&) = delete;

 private:
  Client& client_;
};

Client::Client(const ChunkPlan& plan, const rpc::MessageRegions& regions, fabric::Worker& worker,
               Stock& stock)
    : plan_(plan),
      worker_(worker),
      stock_(stock),
      channel_(plan.messages, regions, worker),
      links_(plan.serving_nodes) {}

coro::Task<Supply> Client::supply(fabric::NodeId node, fabric::OpStats* stats) {
  Link& link = links_.at(node);
  const bool waits = stock_.left(node) == 0;
  const Nanos before = worker_.now();
  const std::uint32_t failures = link.failures;
  while (stock_.left(node) == 0 && !link.is_full && link.failures == failures && !worker_.stopping()) {
    if (link.is_asking) {
      LOCH_PROBE("chunks.operation-waits");
      co_await Turn(link);
      continue;
    }
    link.is_asking = true;
    co_await ask(node, stats);
  }
  if (waits) {
    ++counts_.waits;
    counts_.wait_ns += static_cast<std::uint64_t>(worker_.now() - before);
  }
  if (stock_.left(node) != 0) {
    keep_ahead(node);
    co_return Supply::ready;
  }
  co_return link.is_full ? Supply::full : Supply::unreachable;
}

void Client::keep_ahead(fabric::NodeId node) {
  Link& link = links_[node];
  const bool is_short = stock_.left(node) - 1 < plan_.ahead();
  if (!is_short || link.is_asking || link.is_full || beside_ == nullptr || worker_.stopping()) return;
  LOCH_PROBE("chunks.asks-ahead");
  link.is_asking = true;
  beside_->spawn(ask(node, nullptr));
}

coro::Task<void> Client::ask(fabric::NodeId node, fabric::OpStats* stats) {
  Link& link = links_[node];
  const Nanos before = worker_.now();
  const Ask request{plan_.client_number(worker_.node(), worker_.index()), link.number + 1};
  std::memcpy(channel_.request(node), &request, sizeof request);
  const rpc::Reply reply = co_await channel_.call(node, {node, 0}, 0, sizeof request, stats);
  Answer answer;
  const bool is_answered = reply.ok() && reply.length == sizeof answer;
  if (is_answered) std::memcpy(&answer, reply.data, sizeof answer);
  if (is_answered && answer.number == request.number) {
    link.number = request.number;
    ++counts_.allocs;
    counts_.alloc_ns += static_cast<std::uint64_t>(worker_.now() - before);
    link.is_full = answer.count == 0;
    if (link.is_full) ++counts_.full;
    if (!link.is_full) stock_.add(node, {answer.first, answer.count});
  } else {
    LOCH_PROBE("chunks.no-answer");
    ++link.failures;
    ++counts_.unanswered;
  }
  link.is_asking = false;
  while (!link.waiting.empty()) {
    worker_.run_queue().push(link.waiting.front()->take());
    link.waiting.pop_front();
  }
}

coro::Task<void> Client::run_beside(coro::Task<void> background) {
  coro::Scope scope(worker_.run_queue());
  {
    const Beside beside(*this, scope);
    co_await std::move(background);
  }
  co_await scope.join();
}

}  // namespace loch::chunks
