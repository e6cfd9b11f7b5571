// Wraps a fabric so that background load (processes that only compute) starts and stops with its run, and
// reports how much they computed.
#include "common/fabric/background/background.h"

#include <time.h>

#include <mutex>
#include <utility>

#include "common/fabric/decorator.h"

namespace loch::background {
namespace {

[[nodiscard]] std::int64_t read(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

class Background final : public fabric::ForwardingFabric<BackgroundFabric> {
 public:
  Background(std::unique_ptr<fabric::Fabric> inner, std::unique_ptr<CpuLoad> load)
      : ForwardingFabric(std::move(inner)), load_(std::move(load)) {}

  [[nodiscard]] Result<fabric::RunEnd> run() override {
    if (load_ != nullptr) load_->go();
    Result<fabric::RunEnd> end = inner().run();
    const std::lock_guard guard(mutex_);
    if (load_ != nullptr) {
      // The counters are read while all background workers still run, so that the measured time does not
      // include the exit of these workers.
      at_end_ = take();
      lost_ = load_->stop();
    }
    return end;
  }

  void reset_counters() override {
    const std::int64_t now = read(CLOCK_REALTIME);
    inner().reset_counters();
    const std::lock_guard guard(mutex_);
    reset_at_ = now;
    at_begin_ = take();
  }

  [[nodiscard]] fabric::FabricReport report() const override {
    fabric::FabricReport report = inner().report();
    const std::lock_guard guard(mutex_);
    if (load_ == nullptr) return report;
    for (std::uint32_t node = 0; node < inner().nodes(); ++node) {
      if (!inner().is_local(static_cast<fabric::NodeId>(node))) continue;
      if (report.nodes.size() <= node) report.nodes.resize(node + 1);
      // the whole background load of this process is reported with its first node
      count_into(report.nodes[node].counters);
      break;
    }
    return report;
  }

  [[nodiscard]] std::optional<std::int64_t> counters_reset() const override {
    const std::lock_guard guard(mutex_);
    return reset_at_;
  }

 private:
  struct Reading {
    Nanos at = 0;
    std::vector<WorkerUsage> usage;
  };

  [[nodiscard]] Reading take() const {
    return load_ == nullptr ? Reading() : Reading{read(CLOCK_MONOTONIC), load_->usage()};
  }

  void count_into(std::map<std::string, double>& counters) const {
    double hashes = 0, cpu = 0;
    for (std::size_t i = 0; i < at_end_.usage.size(); ++i) {
      const WorkerUsage from = i < at_begin_.usage.size() ? at_begin_.usage[i] : WorkerUsage();
      hashes += static_cast<double>(at_end_.usage[i].hashes - from.hashes);
      cpu += static_cast<double>(at_end_.usage[i].cpu - from.cpu) / 1e9;
    }
    const auto workers = static_cast<double>(at_end_.usage.size());
    counters[hashes_counter] = hashes;
    counters[cpu_counter] = cpu;
    counters[wall_counter] = workers * static_cast<double>(at_end_.at - at_begin_.at) / 1e9;
    counters[workers_counter] = workers;
    counters[lost_counter] = lost_;
  }

  std::unique_ptr<CpuLoad> load_;
  // guards all members below, because a worker's thread reports the end of the warm-up
  mutable std::mutex mutex_;
  std::optional<std::int64_t> reset_at_;
  Reading at_begin_, at_end_;
  std::uint32_t lost_ = 0;
};

}  // namespace

std::unique_ptr<BackgroundFabric> with_background(std::unique_ptr<fabric::Fabric> inner,
                                                  std::unique_ptr<CpuLoad> load) {
  return std::make_unique<Background>(std::move(inner), std::move(load));
}

}  // namespace loch::background
