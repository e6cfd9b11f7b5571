// Runs points one after the other on one store, and decides whether the next one may follow.
#include "app/cli/kept_points.h"

#include <fmt/format.h>

#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/cli/standard_streams.h"

namespace loch::cli {
namespace {

constexpr int exit_failed = 1, exit_bad_input = 2;

int report(const Error& error) {
  fmt::print(stderr, "loch bench: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
  return is_input ? exit_bad_input : exit_failed;
}

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

// CPU time in seconds that this process has used so far.
double own_cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Runs the points of run_on_one_store(), of which the first one deploys the store.
class OneStore {
 public:
  OneStore(std::span<const BenchOptions* const> points, const kv::Module& module, const Place& place)
      : points_(points), module_(module), place_(place) {}

  // Runs a point; returns its exit status.
  int run(std::size_t i) {
    const BenchOptions& own = *points_[i];
    const auto began = std::chrono::steady_clock::now();
    if (const Result<> ready = i == 0 ? deploy(own) : change_load(own, module_, place_, *run_); !ready)
      return report(ready.error());
    if (workloads::serves_further_loads(*run_->deployed->store) && points_.size() > 1) {
      if (i == 0) preload_s_ = seconds_since(began);
      run_->note = fmt::format(
          "the store was deployed and preloaded in {:.3f} s and serves the loads of several points: this is "
          "load {} on it, which was ready to begin after {:.3f} s",
          preload_s_, i + 1, seconds_since(began));
    }
    return deliver_point(own, module_, place_, *run_);
  }

  struct End {
    bool is_fit = false;  // whether every process's store is fit for a further load
    double cpu_s = 0;     // used by the load in all processes on this machine
  };
  // Agrees with the other processes on how a point ended. Every process calls it.
  [[nodiscard]] End agree(bool has_succeeded) {
    const double cpu_now = own_cpu_s();
    End end{.is_fit = has_succeeded && run_ != nullptr && run_->is_fit_for_more,
            .cpu_s = cpu_now - std::exchange(cpu_before_, cpu_now)};
    if (place_.control == nullptr) return end;
    constexpr Nanos within = 120'000'000'000;
    const auto all = place_.control->all_gather(
        "end of a point", nlohmann::json{end.is_fit, end.cpu_s, place_.control->host(place_.rank)}.dump(),
        within);
    if (!all) return {.is_fit = false, .cpu_s = end.cpu_s};
    end.cpu_s = 0;
    for (const std::string& text : *all) {
      const auto each = nlohmann::json::parse(text, nullptr, false);  // a process that was lost sends nothing
      const bool is_whole =
          each.is_array() && each.size() == 3 && each[0].is_boolean() && each[1].is_number();
      end.is_fit = end.is_fit && is_whole && each[0].get<bool>();
      if (is_whole && each[2] == place_.control->host(place_.rank)) end.cpu_s += each[1].get<double>();
    }
    return end;
  }

 private:
  [[nodiscard]] Result<> deploy(const BenchOptions& first) {
    LOCH_ASSIGN(run_, open_point(first, module_, 0, place_));
    run_->keeps_store = true;
    // Spare entries for the PUTs of all loads, which may follow each other faster than entries expire.
    Nanos& load_time = run_->plan.deploy.load_time;
    if (load_time < fabric::forever / static_cast<Nanos>(points_.size()))
      load_time *= static_cast<Nanos>(points_.size());
    return set_up_point(*run_);
  }

  std::span<const BenchOptions* const> points_;
  const kv::Module& module_;
  const Place& place_;
  std::unique_ptr<PointRun> run_;
  double preload_s_ = 0;
  double cpu_before_ = 0;  // CPU time in s of this process when the point before had ended
};

}  // namespace

bool can_follow(const BenchOptions& o) {
  const workloads::OperationMix& mix = o.load.mix;
  const bool is_fixed_set = mix.remove == 0 && mix.insert == 0 && mix.insert_if_absent == 0 &&
                            o.max_keys == o.keys && o.load.multi_get == 1;
  const bool is_plain = o.throttle == "off" && !o.service_times && o.mutant.empty() &&
                        o.background_workers == 0 && o.load.timeline == 0 && o.load.probe_keys == 0 &&
                        !o.repair_after && o.histogram.empty() && o.at_end == "finish";
  return (o.fabric == "verbs" || o.fabric == "ofi") && is_fixed_set && is_plain;
}

void run_on_one_store(std::span<const BenchOptions* const> points, const kv::Module& module,
                      const Place& place, const PointEvents& events) {
  OneStore store(points, module, place);
  for (std::size_t i = 0; i < points.size(); ++i) {
    events.begins(i);
    const int status = with_output_checked("bench", [&] { return store.run(i); });
    const auto [is_fit, cpu_s] = store.agree(status == 0);
    events.has_ended(i, status, cpu_s);
    if (!is_fit) return;
  }
}

}  // namespace loch::cli
