// Wraps server workers: notes when a request is found and when the worker polls again.
#include "common/fabric/service/service_times.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "common/fabric/decorator.h"

namespace loch::fabric {
namespace {

// The value that a share of the samples does not exceed; 0 without samples.
double quantile(std::vector<std::uint32_t> samples, double share) {
  if (samples.empty()) return 0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1));
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

// The times of the most recent requests of one server worker, in ns.
class Samples {
 public:
  void add(Nanos work, Nanos posting) {
    const std::size_t at = count_++ % most;
    if (at == work_.size()) {
      work_.push_back(narrow(work));
      posting_.push_back(narrow(posting));
    } else {
      work_[at] = narrow(work);
      posting_[at] = narrow(posting);
    }
  }
  void clear() {
    work_.clear();
    posting_.clear();
    count_ = 0;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] const std::vector<std::uint32_t>& work() const { return work_; }
  [[nodiscard]] const std::vector<std::uint32_t>& posting() const { return posting_; }

 private:
  static constexpr std::size_t most = 1 << 18;
  static std::uint32_t narrow(Nanos span) {
    return static_cast<std::uint32_t>(std::clamp<Nanos>(span, 0, UINT32_MAX));
  }
  std::vector<std::uint32_t> work_, posting_;
  std::uint64_t count_ = 0;
};

class TimedWorker final : public WrappedWorker {
 public:
  using WrappedWorker::WrappedWorker;

  void begin_watch(WatchWait* wait) override {
    if (wait->set.count != 0) {
      end_request();
      ready_ = std::exchange(wait->set.ready, &TimedWorker::look);
      context_ = std::exchange(wait->set.context, static_cast<void*>(this));
    }
    WrappedWorker::begin_watch(wait);
  }
  [[nodiscard]] const Samples& samples() const { return samples_; }
  // Forgets all samples at the begin of the next request; may be called by any thread.
  void reset() { is_to_reset_.store(true, std::memory_order_relaxed); }

 protected:
  void do_post(WorkRequest* chain) override {
    const Nanos begin = is_working_ ? now() : 0;
    WrappedWorker::do_post(chain);
    if (is_working_) posting_ += now() - begin;
  }
  void do_post_detached(const WorkRequest& request) override {
    const Nanos begin = is_working_ ? now() : 0;
    WrappedWorker::do_post_detached(request);
    if (is_working_) posting_ += now() - begin;
  }

 private:
  static bool look(void* self, std::uint32_t index, std::uint64_t word) {
    auto& worker = *static_cast<TimedWorker*>(self);
    if (!worker.ready_(worker.context_, index, word)) return false;
    if (worker.is_to_reset_.exchange(false, std::memory_order_relaxed)) worker.samples_.clear();
    worker.is_working_ = true;
    worker.posting_ = 0;
    worker.found_at_ = worker.now();
    return true;
  }
  void end_request() {
    if (std::exchange(is_working_, false)) samples_.add(now() - found_at_, posting_);
  }

  // the predicate of the request slots that the worker polls, and its context
  bool (*ready_)(void* context, std::uint32_t index, std::uint64_t word) = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> is_to_reset_ = false;
  bool is_working_ = false;
  Nanos found_at_ = 0, posting_ = 0;
  Samples samples_;
};

class TimedFabric final : public ForwardingFabric<> {
 public:
  using ForwardingFabric::ForwardingFabric;

  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override {
    LOCH_ASSIGN(Worker * worker, inner().add_worker(spec));
    if (spec.role != Role::server) return worker;
    servers_.push_back(std::make_unique<TimedWorker>(worker));
    return servers_.back().get();
  }
  void start(Worker& worker, coro::Task<void> main) override {
    const auto found =
        std::ranges::find(servers_, &worker, [](const auto& server) -> Worker* { return server.get(); });
    inner().start(found == servers_.end() ? worker : (*found)->inner(), std::move(main));
  }
  void reset_counters() override {
    inner().reset_counters();
    for (const auto& server : servers_) server->reset();
  }
  [[nodiscard]] FabricReport report() const override {
    FabricReport report = inner().report();
    report.nodes.resize(nodes());
    for (std::size_t node = 0; node < report.nodes.size(); ++node) add_to(report.nodes[node], node);
    return report;
  }

 private:
  void add_to(NodeReport& report, std::size_t node) const {
    std::vector<std::uint32_t> work, posting;
    std::uint64_t requests = 0;
    const Worker* last = nullptr;
    for (const auto& server : servers_) {
      if (server->node() != node) continue;
      const Samples& samples = server->samples();
      work.insert(work.end(), samples.work().begin(), samples.work().end());
      posting.insert(posting.end(), samples.posting().begin(), samples.posting().end());
      requests += samples.count();
      last = server.get();
    }
    if (last == nullptr) return;
    report.counters["service.requests"] = static_cast<double>(requests);
    report.counters["service.median_ns"] = quantile(work, 0.5);
    report.counters["service.p90_ns"] = quantile(work, 0.9);
    report.counters["service.posting_ns"] = quantile(posting, 0.5);
    report.counters["service.clock_ns"] = clock_time(*last);
  }
  static double clock_time(const Worker& worker) {
    std::vector<std::uint32_t> spans;
    for (int i = 0; i < 1001; ++i) {
      const Nanos first = worker.now();
      spans.push_back(static_cast<std::uint32_t>(worker.now() - first));
    }
    return quantile(std::move(spans), 0.5);
  }

  std::vector<std::unique_ptr<TimedWorker>> servers_;
};

}  // namespace

std::unique_ptr<Fabric> measure_service_times(std::unique_ptr<Fabric> inner) {
  return std::make_unique<TimedFabric>(std::move(inner));
}

}  // namespace loch::fabric
