// Holds a worker's chains of requests back while it has as many requests outstanding as the limit allows.
#include "common/fabric/throttle/throttle.h"

#include <fmt/format.h>

#include <charconv>
#include <coroutine>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "common/coro/root.h"
#include "common/fabric/decorator.h"
#include "common/fabric/throttle/tuner.h"

namespace loch::fabric {
namespace {

// how many chains may be posted before one that waits, so that none waits for ever
constexpr std::uint32_t most_overtaken = 1024;

class ThrottledWorker;

// Receives the completion of a request in place of the request's own sink. Taken from a pool.
struct Credit : CompletionSink {
  ThrottledWorker* owner = nullptr;
  CompletionSink* original = nullptr;
  // requests that end with this completion: the signaled one and the unsignaled ones before it
  std::uint32_t requests = 0;
};

bool is_limited(const WorkRequest& request) { return request.verb != Verb::send; }
// Whether nobody hears of the completion of the chain's last request, so that only the order on its queue
// pair says when the chain has ended.
bool ends_unsignaled(const WorkRequest* chain) {
  while (chain->next != nullptr) chain = chain->next;
  return chain->sink == nullptr;
}
bool has_same_queue_pair(const WorkRequest& a, const WorkRequest& b) {
  return a.transport == b.transport && a.peer == b.peer && a.lane == b.lane;
}

class ThrottledWorker final : public WrappedWorker {
 public:
  ThrottledWorker(Worker* inner, Tuner* tuner)
      : WrappedWorker(inner), tuner_(tuner), completed_(tuner->add_worker()), drain_(drain(this).handle) {}
  ~ThrottledWorker() override { drain_.destroy(); }

  void do_post(WorkRequest* chain) override {
    if (!is_limited(*chain)) {
      post_waiting(*chain);
      return inner().post(chain);
    }
    if (fits(*chain) && may_overtake(chain)) return send(chain);
    waits_.fetch_add(1, std::memory_order_relaxed);
    waiting_.push_back(chain);
    if (ends_unsignaled(chain)) ++unsignaled_;
  }
  void do_post_detached(const WorkRequest& request) override {
    post_waiting(request);
    inner().post_detached(request);
  }
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  void reset_waits() { waits_.store(0, std::memory_order_relaxed); }

 private:
  static std::uint32_t length(const WorkRequest* chain) {
    std::uint32_t requests = 0;
    for (; chain != nullptr; chain = chain->next) ++requests;
    return requests;
  }
  // Whether the chain may be posted now. A chain that is longer than the limit may be posted if nothing is
  // outstanding.
  [[nodiscard]] bool fits(const WorkRequest& chain) const {
    return outstanding_ == 0 || std::uint64_t{outstanding_} + length(&chain) <= tuner_->limit();
  }
  // Whether the chain may be posted now if the limit allows it, though others may wait. A credit is taken by
  // whoever runs when it is free, as SMART's are: most often by the coroutine whose request has just
  // completed, so that an operation under way ends before another one begins.
  [[nodiscard]] bool may_overtake(const WorkRequest* chain) {
    if (waiting_.empty()) return true;
    if (unsignaled_ > 0 || overtaken_ == most_overtaken || ends_unsignaled(chain)) return false;
    ++overtaken_;
    return true;
  }
  void send(WorkRequest* chain) {
    std::uint32_t since = 0;  // requests of the chain since the last one that has a completion sink
    for (WorkRequest* request = chain; request != nullptr; request = request->next) {
      ++since;
      if (request->sink == nullptr) continue;
      Credit* credit = take();
      credit->original = request->sink;
      credit->requests = since;
      request->sink = credit;
      outstanding_ += std::exchange(since, 0);
    }
    inner().post(chain);
  }
  // Posts the waiting chains for the queue pair of `request` even if that exceeds the limit, since `request`,
  // which does not wait, must not overtake them.
  void post_waiting(const WorkRequest& request) {
    for (std::size_t i = 0; i < waiting_.size();) {
      WorkRequest* chain = waiting_[i];
      bool is_same = false;
      for (const WorkRequest* each = chain; each != nullptr; each = each->next)
        is_same = is_same || has_same_queue_pair(*each, request);
      if (!is_same) {
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      if (ends_unsignaled(chain)) --unsignaled_;
      send(chain);
    }
  }
  Credit* take() {
    if (free_.empty()) {
      Credit& made = credits_.emplace_back();
      made.fn = done;
      made.owner = this;
      free_.reserve(credits_.size());
      return &made;
    }
    Credit* credit = free_.back();
    free_.pop_back();
    return credit;
  }
  static void done(CompletionSink* sink, WorkRequest& request) {
    auto* credit = static_cast<Credit*>(sink);
    ThrottledWorker& self = *credit->owner;
    self.outstanding_ -= credit->requests;
    self.completed_->store(self.completed_->load(std::memory_order_relaxed) + credit->requests,
                           std::memory_order_relaxed);
    request.sink = credit->original;
    self.free_.push_back(credit);
    self.tuner_->look(self.now());
    request.sink->fn(request.sink, request);
    if (!self.waiting_.empty() && !std::exchange(self.is_draining_, true)) self.run_queue().push(self.drain_);
  }
  // Posts waiting chains as long as the limit has room, one each time the run queue resumes this coroutine,
  // since posting takes CPU time.
  static coro::Root drain(ThrottledWorker* self) {
    for (;;) {
      while (!self->waiting_.empty() && self->fits(*self->waiting_.front())) {
        WorkRequest* chain = self->waiting_.front();
        self->waiting_.pop_front();
        self->overtaken_ = 0;
        if (ends_unsignaled(chain)) --self->unsignaled_;
        self->send(chain);
        self->run_queue().push(self->drain_);
        co_await std::suspend_always{};
      }
      self->is_draining_ = false;
      co_await std::suspend_always{};
    }
  }

  Tuner* tuner_;
  std::atomic<std::uint64_t>* completed_;
  std::uint32_t outstanding_ = 0;
  std::deque<WorkRequest*> waiting_;
  std::uint32_t unsignaled_ = 0;  // waiting chains that end unsignaled
  std::uint32_t overtaken_ = 0;   // chains that were posted since the first waiting one waits as the first
  std::deque<Credit> credits_;
  std::vector<Credit*> free_;
  bool is_draining_ = false;  // whether the coroutine drain_ is in the run queue
  std::atomic<std::uint64_t> waits_ = 0;
  std::coroutine_handle<> drain_;
};

class ThrottledFabric final : public WrappedFabric<ThrottledWorker> {
 public:
  ThrottledFabric(std::unique_ptr<Fabric> inner, const ThrottleConfig& config)
      : WrappedFabric(std::move(inner)), config_(config) {}

  void reset_counters() override {
    inner().reset_counters();
    for (const auto& worker : wrappers()) worker->reset_waits();
  }
  [[nodiscard]] FabricReport report() const override {
    FabricReport report = inner().report();
    report.nodes.resize(nodes());
    for (const auto& [node, tuner] : tuners_) report.nodes[node].counters["throttle.limit"] = tuner->limit();
    for (const auto& worker : wrappers())
      report.nodes[worker->node()].counters["throttle.waits"] += static_cast<double>(worker->waits());
    return report;
  }

 protected:
  [[nodiscard]] std::unique_ptr<ThrottledWorker> wrap(Worker* worker) override {
    if (worker->spec().role == Role::server) return std::make_unique<ThrottledWorker>(worker, &unlimited_);
    std::unique_ptr<Tuner>& tuner = tuners_[worker->node()];
    if (tuner == nullptr) tuner = std::make_unique<Tuner>(config_.limit, config_.sample);
    return std::make_unique<ThrottledWorker>(worker, tuner.get());
  }

 private:
  ThrottleConfig config_;
  std::map<NodeId, std::unique_ptr<Tuner>> tuners_;
  Tuner unlimited_{~std::uint32_t{0}, 0};  // for server workers, which are not limited
};

}  // namespace

Result<std::optional<std::uint32_t>> parse_throttle(std::string_view text) {
  if (text == "off") return std::nullopt;
  if (text == "adaptive") return 0;
  std::uint32_t limit = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error != std::errc{} || end != text.data() + text.size() || limit == 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--throttle: expected off, adaptive or a number of requests, not {}", text));
  return limit;
}

std::unique_ptr<Fabric> throttle_requests(std::unique_ptr<Fabric> inner, const ThrottleConfig& config) {
  return std::make_unique<ThrottledFabric>(std::move(inner), config);
}

}  // namespace loch::fabric
