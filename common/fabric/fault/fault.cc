// Injects faults between a protocol and a fabric: delays completions, loses, repeats and reorders messages.
#include "common/fabric/fault/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/coro/root.h"
#include "common/fabric/decorator.h"

namespace loch::fabric {
namespace {

// A coroutine that nobody awaits. Each ends before the protocol sees the completion, or the end of the wait
// on a memory word, that the coroutine delivers; so none outlives the main coroutine that waits for it.
using coro::SelfOwned;

// Completes a request, whose status the caller has set, after `delay` ns.
SelfOwned complete_later(Worker* inner, WorkRequest* request, Nanos delay) {
  if (delay > 0) co_await inner->spin_until(inner->now() + delay);
  request->sink->fn(request->sink, *request);
}

SelfOwned post_later(Worker* inner, WorkRequest* request, Nanos delay) {
  co_await inner->spin_until(inner->now() + delay);
  inner->post(request);
}

struct FaultCounts {
  std::atomic<std::uint64_t> uc_lost = 0, ud_lost = 0, ud_held = 0, delayed = 0, rc_failed = 0;
  // no atomic increment is needed: only the owning thread writes
  static void add(std::atomic<std::uint64_t>& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

class FaultyWorker;

// Receives the completion of a request in place of the protocol's own sink. Objects are reused from a pool.
struct Interposed : CompletionSink {
  FaultyWorker* owner = nullptr;
  // the protocol's request, whose completion this sink receives
  WorkRequest* request = nullptr;
  CompletionSink* original = nullptr;
  WorkRequest copy;  // posted in place of `request`: part of a WRITE, or a request without effect
  WcStatus forced = WcStatus::success;
  Nanos delay = 0;
};

class FaultyWorker final : public WrappedWorker {
 public:
  FaultyWorker(Worker* inner, const FaultConfig* config, std::uint32_t nodes)
      : WrappedWorker(inner),
        config_(config),
        dice_(config->seed, "fault", std::uint64_t{inner->node()} << 16 | inner->index()),
        links_(nodes) {
    is_off_ = config->uc_loss == 0 && config->ud_loss == 0 && config->ud_reorder == 0 && config->delay == 0 &&
              config->rc_error == 0;
  }

  [[nodiscard]] bool connected(NodeId peer) const override {
    return links_.at(peer).failed_lanes == 0 && inner().connected(peer);
  }
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override {
    return inner().epoch(peer) + links_.at(peer).reconnections;
  }
  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void begin_watch(WatchWait* wait) override {
    if (config_->rc_error == 0 || wait->set.count != 0 || !wait->word.peer) {
      inner().begin_watch(wait);
    } else {
      run_queue().push(watch_in_slices(this, wait).handle);
    }
  }
  void begin_reconnect(ReconnectWait* wait) override {
    Link& link = links_.at(wait->peer);
    if (std::exchange(link.failed_lanes, 0) != 0) ++link.reconnections;
    inner().begin_reconnect(wait);
  }
  [[nodiscard]] const FaultCounts& counts() const { return counts_; }

 private:
  enum class Fate : std::uint8_t { pass, lose, place_in_part, hold, fail, fail_executed, flush };
  struct Link {
    std::uint64_t failed_lanes = 0;
    // bit i: the last request on lane i (the queue pair to one peer) was unsignaled
    std::uint64_t silent_lanes = 0;
    std::uint32_t reconnections = 0;
  };

  static SelfOwned watch_in_slices(FaultyWorker* self, WatchWait* wait);
  [[nodiscard]] Fate draw(const WorkRequest& request);
  // Drops, delays or fails a request, as the drawn `fate` says, instead of forwarding it unchanged.
  void divert(WorkRequest& request, Fate fate);
  void fail_lane(const WorkRequest& request) { links_.at(request.peer).failed_lanes |= bit(request); }
  void finish(WorkRequest& request, WcStatus status) {
    request.status = status;
    if (request.sink == nullptr) return;
    const bool is_behind = request.transport == Transport::rc && request.verb != Verb::send &&
                           request.peer < links_.size() &&
                           (links_[request.peer].silent_lanes & bit(request)) != 0;
    if (is_behind) return finish_in_turn(request, status);
    run_queue().push(complete_later(&inner(), &request, 0).handle);
  }
  // Completes a request after the unsignaled ones before it that were forwarded: a completion says that
  // earlier requests on its queue pair have ended too.
  void finish_in_turn(WorkRequest& request, WcStatus status);
  Interposed* interpose(WorkRequest& request);
  void place_in_part(WorkRequest& request);
  static void completed(CompletionSink* sink, WorkRequest& done);
  void note_passed(const WorkRequest& request) {
    if (request.transport != Transport::rc || request.peer >= links_.size()) return;
    std::uint64_t& silent = links_[request.peer].silent_lanes;
    silent = request.is_signaled ? silent & ~bit(request) : silent | bit(request);
  }
  static std::uint64_t bit(const WorkRequest& request) { return std::uint64_t{1} << (request.lane & 63); }
  static WorkRequest prefix_of(const WorkRequest& request, Rng& dice) {
    WorkRequest part = request;
    part.next = nullptr;
    part.has_immediate = false;
    part.length = static_cast<std::uint32_t>(dice.below((request.length + 63) / 64)) * 64;
    return part;
  }

  const FaultConfig* config_;
  Rng dice_;
  bool is_off_;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Interposed>> pool_;
  std::vector<Interposed*> free_;
  FaultCounts counts_;
};

FaultyWorker::Fate FaultyWorker::draw(const WorkRequest& request) {
  switch (request.transport) {
    case Transport::rc:
      if (request.peer < links_.size() && (links_[request.peer].failed_lanes & bit(request)) != 0)
        return Fate::flush;
      if (config_->rc_error > 0 && dice_.chance(config_->rc_error)) {
        const bool can_execute = request.is_signaled && request.sink != nullptr;
        return can_execute && dice_.chance(config_->rc_error_executed) ? Fate::fail_executed : Fate::fail;
      }
      return Fate::pass;
    case Transport::uc:
      if (config_->uc_loss > 0 && dice_.chance(config_->uc_loss)) {
        const bool in_part =
            request.verb == Verb::write && request.length > 64 && dice_.chance(config_->uc_partial_write);
        return in_part ? Fate::place_in_part : Fate::lose;
      }
      return Fate::pass;
    case Transport::ud:
      if (config_->ud_loss > 0 && dice_.chance(config_->ud_loss)) return Fate::lose;
      if (config_->ud_reorder > 0 && request.sink != nullptr && dice_.chance(config_->ud_reorder))
        return Fate::hold;
      return Fate::pass;
  }
  return Fate::pass;
}

void FaultyWorker::completed(CompletionSink* sink, WorkRequest& done) {
  auto* between = static_cast<Interposed*>(sink);
  FaultyWorker& self = *between->owner;
  WorkRequest& request = *between->request;
  request.status = between->forced != WcStatus::success ? between->forced : done.status;
  request.sink = between->original;
  const Nanos delay = between->delay;
  self.free_.push_back(between);
  if (delay > 0) {
    self.run_queue().push(complete_later(&self.inner(), &request, delay).handle);
  } else {
    request.sink->fn(request.sink, request);
  }
}

Interposed* FaultyWorker::interpose(WorkRequest& request) {
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Interposed>());
    free_.reserve(pool_.size());
    free_.push_back(pool_.back().get());
  }
  Interposed* between = free_.back();
  free_.pop_back();
  between->fn = completed;
  between->owner = this;
  between->request = &request;
  between->original = request.sink;
  between->forced = WcStatus::success;
  between->delay = 0;
  return between;
}

void FaultyWorker::finish_in_turn(WorkRequest& request, WcStatus status) {
  Interposed* between = interpose(request);
  between->forced = status;
  between->copy = request;
  WorkRequest& empty = between->copy;  // has the target and access rights of `request`, but no effect
  if (is_atomic(request.verb)) empty.verb = Verb::faa;
  empty.length = is_atomic(request.verb) ? 8 : 0;
  empty.operand = 0;
  empty.local = {};
  empty.next = nullptr;
  empty.stats = nullptr;
  empty.is_signaled = true;
  empty.is_inline = empty.has_immediate = false;
  empty.sink = between;
  links_[request.peer].silent_lanes &= ~bit(request);
  inner().post(&empty);
}

void FaultyWorker::place_in_part(WorkRequest& request) {
  if (request.sink == nullptr) {
    const WorkRequest part = prefix_of(request, dice_);
    if (part.length != 0) inner().post_detached(part);
    return;
  }
  Interposed* between = interpose(request);
  between->copy = prefix_of(request, dice_);
  between->copy.sink = between;
  inner().post(&between->copy);
}

void FaultyWorker::divert(WorkRequest& request, Fate fate) {
  switch (fate) {
    case Fate::pass:
      LOCH_CHECK(false, "a request that passes is not diverted");
      return;
    case Fate::lose:
      FaultCounts::add(request.transport == Transport::uc ? counts_.uc_lost : counts_.ud_lost);
      finish(request, WcStatus::success);
      return;
    case Fate::place_in_part:
      FaultCounts::add(counts_.uc_lost);
      place_in_part(request);
      return;
    case Fate::hold:
      FaultCounts::add(counts_.ud_held);
      run_queue().push(post_later(&inner(), &request, config_->ud_reorder_ns).handle);
      return;
    case Fate::fail:
      FaultCounts::add(counts_.rc_failed);
      fail_lane(request);
      finish(request, WcStatus::retry_exceeded);
      return;
    case Fate::fail_executed: {
      FaultCounts::add(counts_.rc_failed);
      fail_lane(request);
      Interposed* between = interpose(request);
      between->forced = WcStatus::retry_exceeded;
      request.sink = between;
      inner().post(&request);
      return;
    }
    case Fate::flush:
      finish(request, WcStatus::flushed);
      return;
  }
}

void FaultyWorker::do_post(WorkRequest* chain) {
  if (is_off_) return inner().post(chain);
  WorkRequest* first = nullptr;  // the first request of the chain that is forwarded with one doorbell
  WorkRequest* last = nullptr;
  const auto pass_on = [&] {
    if (first != nullptr) inner().post(std::exchange(first, nullptr));
  };
  for (WorkRequest* request = chain; request != nullptr;) {
    WorkRequest* next = request->next;
    request->next = nullptr;
    const Fate fate = draw(*request);
    if (fate == Fate::pass) {
      note_passed(*request);
      if (request->sink != nullptr && config_->delay > 0 && dice_.chance(config_->delay)) {
        FaultCounts::add(counts_.delayed);
        Interposed* between = interpose(*request);
        between->delay =
            1 + static_cast<Nanos>(dice_.below(static_cast<std::uint64_t>(config_->delay_ns_max)));
        request->sink = between;
      }
      (first == nullptr ? first : last->next) = request;
      last = request;
    } else {
      pass_on();
      divert(*request, fate);
    }
    request = next;
  }
  pass_on();
}

void FaultyWorker::do_post_detached(const WorkRequest& request) {
  if (is_off_) return inner().post_detached(request);
  switch (draw(request)) {
    case Fate::lose:
      FaultCounts::add(request.transport == Transport::uc ? counts_.uc_lost : counts_.ud_lost);
      return;
    case Fate::place_in_part: {
      FaultCounts::add(counts_.uc_lost);
      const WorkRequest part = prefix_of(request, dice_);
      if (part.length != 0) inner().post_detached(part);
      return;
    }
    case Fate::fail:
    case Fate::fail_executed:
      FaultCounts::add(counts_.rc_failed);
      fail_lane(request);
      return;
    case Fate::flush:
      return;
    case Fate::hold:
    case Fate::pass:
      inner().post_detached(request);
      return;
  }
}

// The inner fabric does not know of the failures that this decorator makes up. A wait for a memory word that
// has to end when the connection to a peer breaks is therefore done in slices of 20 us, after each of which
// the connection is checked.
SelfOwned FaultyWorker::watch_in_slices(FaultyWorker* self, WatchWait* wait) {
  constexpr Nanos slice = 20'000;
  Worker& inner = self->inner();
  for (;;) {
    const Nanos until = std::min(wait->deadline, inner.now() + slice);
    const WatchOutcome outcome = co_await inner.watch(wait->word, until);
    const bool is_over = outcome != WatchOutcome::timed_out || inner.now() >= wait->deadline;
    const bool is_down = !self->connected(*wait->word.peer);
    if (!is_over && !is_down) continue;
    wait->result.outcome =
        !is_over || (is_down && outcome == WatchOutcome::timed_out) ? WatchOutcome::link_down : outcome;
    self->run_queue().push(wait->waiter);
    co_return;
  }
}

class FaultyFabric final : public WrappedFabric<FaultyWorker> {
 public:
  FaultyFabric(std::unique_ptr<Fabric> inner, const FaultConfig& config)
      : WrappedFabric(std::move(inner)), config_(config) {}

  [[nodiscard]] FabricReport report() const override {
    FabricReport report = inner().report();
    for (const auto& worker : wrappers()) {
      const FaultCounts& counts = worker->counts();
      report.counters["fault.uc_lost"] += static_cast<double>(counts.uc_lost);
      report.counters["fault.ud_lost"] += static_cast<double>(counts.ud_lost);
      report.counters["fault.ud_held"] += static_cast<double>(counts.ud_held);
      report.counters["fault.delayed"] += static_cast<double>(counts.delayed);
      report.counters["fault.rc_failed"] += static_cast<double>(counts.rc_failed);
    }
    return report;
  }

 protected:
  [[nodiscard]] std::unique_ptr<FaultyWorker> wrap(Worker* worker) override {
    return std::make_unique<FaultyWorker>(worker, &config_, nodes());
  }

 private:
  FaultConfig config_;
};

}  // namespace

Result<std::unique_ptr<Fabric>> inject_faults(std::unique_ptr<Fabric> inner, const FaultConfig& config) {
  const std::pair<const char*, double> rates[] = {{"uc_loss", config.uc_loss},
                                                  {"uc_partial_write", config.uc_partial_write},
                                                  {"ud_loss", config.ud_loss},
                                                  {"ud_reorder", config.ud_reorder},
                                                  {"delay", config.delay},
                                                  {"rc_error", config.rc_error},
                                                  {"rc_error_executed", config.rc_error_executed}};
  for (const auto& [name, rate] : rates) {
    if (!(rate >= 0 && rate <= 1)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("faults: {}: {}; expected a probability, 0 to 1", name, rate));
    }
  }
  if (config.ud_reorder_ns < 0 || config.delay_ns_max < 1) {
    return fail(ErrorCode::invalid_argument,
                "faults: ud_reorder_ns and delay_ns_max: expected positive nanoseconds");
  }
  return std::make_unique<FaultyFabric>(std::move(inner), config);
}

}  // namespace loch::fabric
