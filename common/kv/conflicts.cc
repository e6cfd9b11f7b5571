// SMART's conflict avoidance: adapts the waits after failed CASes, and the number of coroutines that may
// write at once, to the share of retries.
#include "common/kv/conflicts.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"

namespace loch::kv {
namespace {

using Kind = ConflictConfig::Kind;

// A task that ends at once, for the policy in which the next attempt follows without a wait.
coro::Task<void> nothing() { co_return; }

coro::Task<OpResult> pass(Pacing* pacing, fabric::Worker* worker, coro::Task<OpResult> operation) {
  co_await pacing->enter();
  const OpResult result = co_await std::move(operation);
  pacing->leave(*worker);
  co_return result;
}

// A client whose writes wait until its worker's Pacing (state of the conflict avoidance) lets them begin.
class PacedClient final : public Client {
 public:
  PacedClient(Pacing& pacing, fabric::Worker& worker, std::unique_ptr<Client> inner)
      : pacing_(pacing), worker_(worker), inner_(std::move(inner)) {}

  [[nodiscard]] coro::Task<OpResult> get(Key key, fabric::OpStats* stats) override {
    return inner_->get(key, stats);
  }
  [[nodiscard]] coro::Task<OpResult> put(Key key, ValueView value, fabric::OpStats* stats) override {
    return pass(&pacing_, &worker_, inner_->put(key, value, stats));
  }
  [[nodiscard]] coro::Task<OpResult> remove(Key key, fabric::OpStats* stats) override {
    return pass(&pacing_, &worker_, inner_->remove(key, stats));
  }
  [[nodiscard]] coro::Task<OpResult> insert_if_absent(Key key, ValueView value,
                                                      fabric::OpStats* stats) override {
    return pass(&pacing_, &worker_, inner_->insert_if_absent(key, value, stats));
  }
  [[nodiscard]] bool can_migrate() const override { return inner_->can_migrate(); }
  [[nodiscard]] coro::Task<OpResult> migrate(Key key, fabric::OpStats* stats) override {
    return inner_->migrate(key, stats);
  }

 private:
  Pacing& pacing_;
  fabric::Worker& worker_;
  std::unique_ptr<Client> inner_;
};

// The Pacing (state of the conflict avoidance) of each worker of this thread that has one. In real time (not
// simulated) a thread runs one worker; in a simulation one thread runs all workers.
std::unordered_map<const fabric::Worker*, Pacing*>& all() {
  static thread_local std::unordered_map<const fabric::Worker*, Pacing*> workers;
  return workers;
}

}  // namespace

Pacing::Pacing(const ConflictConfig& config)
    : config_(config),
      limit_(config.kind == Kind::exponential ? config.start << ConflictConfig::doublings : config.start),
      coroutines_(ConflictConfig::most_coroutines) {}

coro::Task<void> Pacing::back_off(fabric::Worker* worker, std::uint32_t attempt) {
  if (config_.kind == Kind::none) return nothing();
  ++retries_;
  adapt(worker->now());
  const Nanos wait = std::min(config_.start << std::min(attempt, ConflictConfig::doublings), limit_);
  const auto more = static_cast<Nanos>(worker->rng().below(static_cast<std::uint64_t>(config_.start)));
  return spin(worker, wait + more);
}

coro::Task<void> Pacing::spin(fabric::Worker* worker, Nanos span) {
  co_await worker->spin_until(worker->now() + span);
}

// Adapts the limit of waits and the number of writing coroutines to the share of retries since the last
// adaptation. Called at retries only, as in SMART's artifact.
void Pacing::adapt(Nanos now) {
  if (config_.kind != Kind::limited && config_.kind != Kind::throttled) return;
  if (until_ < 0) until_ = now + config_.epoch;
  if (now < until_) return;
  const double share = static_cast<double>(retries_) / static_cast<double>(retries_ + operations_);
  if (share < config_.few) relax();
  if (share > config_.many) tighten();
  until_ = now + config_.epoch;
  retries_ = operations_ = 0;
}

void Pacing::relax() {
  if (config_.kind == Kind::throttled && coroutines_ < ConflictConfig::most_coroutines)
    coroutines_ *= 2;
  else
    limit_ = std::max(limit_ / 2, config_.start);
}

void Pacing::tighten() {
  if (config_.kind == Kind::throttled && coroutines_ > 1)
    coroutines_ /= 2;
  else
    limit_ = std::min(limit_ * 2, config_.start << ConflictConfig::limit_doublings);
}

bool Pacing::Entrance::await_ready() noexcept {
  const bool is_free = pacing_.waiting_.empty() && pacing_.inside_ < pacing_.coroutines_;
  if (is_free) ++pacing_.inside_;
  return is_free;
}

void Pacing::Entrance::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  pacing_.waiting_.push_back(this);
}

Pacing::Entrance::~Entrance() {
  if (waiter_) std::erase(pacing_.waiting_, this);
}

void Pacing::leave(fabric::Worker& worker) {
  ++operations_;
  --inside_;
  let_in(worker.run_queue());
}

void Pacing::let_in(coro::RunQueue& queue) {
  while (!waiting_.empty() && inside_ < coroutines_) {
    Entrance* const first = waiting_.front();
    waiting_.pop_front();
    ++inside_;
    queue.push(std::exchange(first->waiter_, nullptr));
  }
}

PacedWorker::PacedWorker(fabric::Worker& worker, const ConflictConfig* config) : worker_(worker) {
  if (config == nullptr) return;
  pacing_ = std::make_unique<Pacing>(*config);
  const bool is_first = all().emplace(&worker, pacing_.get()).second;
  LOCH_CHECK(is_first, "worker {} of node {} is paced already", worker.index(), worker.node());
}

PacedWorker::~PacedWorker() {
  if (pacing_ != nullptr) all().erase(&worker_);
}

Pacing* PacedWorker::of(const fabric::Worker& worker) {
  const auto found = all().find(&worker);
  return found == all().end() ? nullptr : found->second;
}

std::unique_ptr<Client> PacedWorker::paced(std::unique_ptr<Client> inner) {
  if (pacing_ == nullptr) return inner;
  return std::make_unique<PacedClient>(*pacing_, worker_, std::move(inner));
}

}  // namespace loch::kv
