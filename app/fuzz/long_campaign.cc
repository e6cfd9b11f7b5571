// Runs a long campaign: threads run fresh seeds and small variations of kept scenarios, and keep each
// scenario that is the first to reach some probe (a mark of a rare branch in the code).
#include "app/fuzz/long_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/fuzz/campaign.h"
#include "app/fuzz/corpus.h"
#include "app/fuzz/findings.h"
#include "app/fuzz/fixes.h"
#include "app/fuzz/neighbours.h"
#include "app/fuzz/run.h"

namespace loch::fuzz {
namespace {

class LongCampaign {
 public:
  LongCampaign(const FuzzOptions& options, const kv::Module& module, Corpus& corpus)
      : options_(options), module_(module), corpus_(corpus), kept_before_(corpus.scenarios().size()) {
    std::set<std::string_view> all;
    for (const ProbeSite& site : probe_sites()) {
      if (is_probe_of(module, site.name)) all.insert(site.name);
    }
    probes_ = all.size();
  }

  int run() {
    {
      const cli::Progress progress([this] { return line(); });
      const std::uint32_t jobs =
          options_.jobs != 0 ? options_.jobs : std::max(1U, std::thread::hardware_concurrency());
      std::vector<std::thread> threads;
      for (std::uint32_t i = 1; i < jobs; ++i) threads.emplace_back([this] { work(); });
      work();
      for (std::thread& thread : threads) thread.join();
    }
    check(corpus_.save());
    fmt::print("{}: {}; {} found in this session\n", options_.corpus, line(), found_.load());
    if (broken_) {
      fmt::print(stderr, "loch fuzz: {}\n", *broken_);
      return 2;
    }
    if (cli::was_interrupted()) return 130;
    return found_ > 0 ? 1 : 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }
  [[nodiscard]] bool is_over() const {
    if (cli::was_interrupted() || is_broken_) return true;
    if (options_.time > 0) return seconds() * 1e9 > static_cast<double>(options_.time);
    return done_ >= options_.seeds;
  }

  void work() {
    while (!is_over()) {
      std::optional<FuzzScenario> kept;
      std::uint64_t step = 0;
      {
        const std::lock_guard lock(mutex_);
        step = corpus_.next_step++;
        kept = next(step);
      }
      FuzzFinding run = kept ? run_neighbour(std::move(*kept), step)
                             : fuzz_seed(options_.first_seed + step, options_, module_);
      ++done_;
      // The run is ignored if the protocol refuses the changed options of a varied scenario.
      if (kept && run.verdict == FuzzVerdict::error) continue;
      take(run, kept.has_value());
    }
  }

  // Draws the scenario of the next run: with probability 1/2 a small variation of a kept scenario, preferring
  // recently kept ones; otherwise nullopt, for a run with a fresh seed.
  std::optional<FuzzScenario> next(std::uint64_t step) {
    Rng rng(options_.first_seed, "long campaign", step);
    const std::vector<FuzzScenario>& all = corpus_.scenarios();
    if (all.empty() || rng.chance(0.5)) return std::nullopt;
    const std::uint64_t one = rng.below(all.size()), other = rng.below(all.size());
    return neighbour_of(all[std::max(one, other)], rng);
  }

  FuzzFinding run_neighbour(FuzzScenario scenario, std::uint64_t step) {
    FuzzFinding run;
    run.seed = options_.first_seed + step;
    {
      const ProbeScope probes(run.probes);
      if (const Result<> done = run_scenario(scenario, options_.hardware, run); !done) {
        run.verdict = FuzzVerdict::error;
        run.reason = done.error().message;
        return run;
      }
    }
    run.scenario = scenario.describe();
    run.ran = std::move(scenario);
    if (run.verdict == FuzzVerdict::holds) run.history.clear();
    return run;
  }

  void take(const FuzzFinding& run, bool is_neighbour) {
    {
      const std::lock_guard lock(mutex_);
      ++corpus_.runs;
      if (run.verdict == FuzzVerdict::holds && run.ran) {
        const std::vector<std::string> news = corpus_.news_of(run.probes);
        if (!news.empty()) check(corpus_.keep(run, news));
      }
      if (seconds() - saved_ > 5) {
        saved_ = seconds();
        check(corpus_.save());
      }
    }
    if (run.verdict != FuzzVerdict::holds) found(run, is_neighbour);
  }

  void found(FuzzFinding run, bool is_neighbour) {
    constexpr std::uint32_t most_of_a_kind = 10;
    ++found_;
    if (!is_neighbour) explain(run, options_, module_);
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = ++corpus_.findings;
      const std::string kind =
          run.cause.empty() ? std::string(name(run.verdict)) : run.cause.substr(0, run.cause.find(':'));
      if (++kinds_[kind] > most_of_a_kind) return;
    }
    const std::string file = fmt::format("{:04}-{}-{:016x}", number, name(run.verdict), run.trace_hash);
    const Result<std::string> stored = shrink_and_store(run, options_, corpus_.findings_folder(), file);
    const std::lock_guard lock(mutex_);
    if (!stored) return check(std::unexpected(stored.error()));
    fmt::print("{}: {}\n{}", name(run.verdict), run.reason, *stored);
    std::fflush(stdout);
    check(corpus_.save());
  }

  // Ends the campaign after the first error in writing to the corpus.
  void check(Result<> done) {
    if (done || broken_) return;
    broken_ = done.error().message;
    is_broken_ = true;
  }

  // Text of the progress line. The caller must not hold mutex_.
  std::string line() {
    const std::lock_guard lock(mutex_);
    return fmt::format(
        "{} runs in all, {:.0f} a second, {} of {} probes, {} scenarios kept ({} new), {} found",
        corpus_.runs, static_cast<double>(done_) / std::max(0.001, seconds()), corpus_.probes_reached(),
        probes_, corpus_.scenarios().size(), corpus_.scenarios().size() - kept_before_, corpus_.findings);
  }

  const FuzzOptions& options_;
  const kv::Module& module_;
  Corpus& corpus_;
  const std::size_t kept_before_;
  std::size_t probes_ = 0;
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  double saved_ = 0;
  std::map<std::string, std::uint32_t> kinds_;
  std::atomic<std::uint64_t> done_{0}, found_{0};
  std::optional<std::string> broken_;
  std::atomic<bool> is_broken_{false};
};

}  // namespace

int run_long(const FuzzOptions& options, const kv::Module& module, const kv::Registry& registry) {
  const auto corpus = Corpus::open(options, module, registry);
  if (!corpus) {
    fmt::print(stderr, "loch fuzz: {}\n", corpus.error().message);
    return 2;
  }
  return LongCampaign(options, module, **corpus).run();
}

}  // namespace loch::fuzz
