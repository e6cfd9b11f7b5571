// For each mutant (known-bad variant) or hole (known fault of a published design), runs consecutive seeds in
// parts of 100, and prints how many seeds it takes to find the mutant or hole.
#include "app/fuzz/mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/fuzz/sightings.h"
#include "common/base/version.h"
#include "common/kv/conflict_kinds.h"

namespace loch::fuzz {
namespace {

// Number of seeds in a part of a measurement. A part counts only when all its seeds have been run, so that
// results do not depend on the number of threads.
constexpr std::uint64_t part_seeds = 100;

class Stretch {
 public:
  Stretch(const FuzzOptions& options, const kv::Module& module, Sightings before)
      : options_(options), module_(module), so_far_(std::move(before)), started_(Clock::now()) {}

  [[nodiscard]] bool is_over() const {
    return so_far_.seeds >= options_.seeds || so_far_.finds.size() >= options_.starts ||
           cli::was_interrupted() ||
           (options_.time > 0 && Clock::now() - started_ > std::chrono::nanoseconds(options_.time));
  }

  // Runs the next part of the measurement; nullopt if an interrupt came before its end.
  std::optional<Sightings> run_part() {
    part_ = {
        .seeds = std::min(part_seeds, options_.seeds - so_far_.seeds), .finds = {}, .by = {}, .errors = 0};
    next_ = 0;
    const std::uint32_t jobs =
        options_.jobs != 0 ? options_.jobs : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> threads;
    for (std::uint32_t i = 1; i < std::min<std::uint64_t>(jobs, part_.seeds); ++i)
      threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    if (cli::was_interrupted()) return std::nullopt;
    std::ranges::sort(part_.finds);
    so_far_.finds.insert(so_far_.finds.end(), part_.finds.begin(), part_.finds.end());
    so_far_.seeds += part_.seeds;
    return part_;
  }

  // Numbers of seeds that were run, and that found the known-bad variant, so far. Any thread may call these
  // functions.
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t found() const { return found_; }

 private:
  using Clock = std::chrono::steady_clock;

  void work() {
    for (std::uint64_t i = next_++; i < part_.seeds && !cli::was_interrupted(); i = next_++) {
      const FuzzFinding finding = fuzz_seed(options_.first_seed + so_far_.seeds + i, options_, module_);
      ++done_;
      if (finding.verdict == FuzzVerdict::holds) continue;
      const std::lock_guard lock(mutex_);
      if (finding.verdict == FuzzVerdict::error) {
        ++part_.errors;
        continue;
      }
      ++found_;
      part_.finds.push_back(i + 1);
      ++part_.by[fmt::format("{}, in `{}`", name(finding.verdict),
                             finding.scenario.substr(0, finding.scenario.find(':')))];
    }
  }

  const FuzzOptions& options_;
  const kv::Module& module_;
  // so_far_: positions of the seeds that found the known-bad variant, in all finished parts; part_: the part
  // of the seeds that is being run
  Sightings so_far_, part_;
  const Clock::time_point started_;
  std::atomic<std::uint64_t> next_{0}, done_{0}, found_{0};
  std::mutex mutex_;
};

// The settings as text, except those that SightingsKey (which identifies a measurement) has as fields of its
// own.
std::string settings_of(const FuzzOptions& options) {
  std::string text = options.hardware;
  if (options.unfair_clock) text += " --unfair clock";
  if (options.conflicts) text += fmt::format(" --backoff {}", name(options.conflicts->kind));
  for (const auto& [key, value] : options.settings) text += fmt::format(" {}={}", key, value);
  return text;
}

// The verdict and profile (kind of scenario) that are the most frequent among the seeds that found the
// known-bad variant.
std::string most_common(const std::map<std::string, std::uint64_t>& by) {
  const auto most = std::ranges::max_element(by, {}, [](const auto& each) { return each.second; });
  return most == by.end() ? "" : most->first;
}

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

std::string row_of(const Sightings& s, const FuzzOptions& options) {
  const WaitStatistics waits = waits_of(s, options.starts);
  const std::string first = s.finds.empty() ? fmt::format("none in {}", s.seeds)
                                            : std::to_string(options.first_seed + s.finds.front() - 1);
  std::string row = fmt::format("{} | {} | {} | {} | {} ({} to {}) | {}", first, waits.starts,
                                to_string(waits.median), to_string(waits.ninetieth), percent(waits.share),
                                percent(waits.share_low), percent(waits.share_high), most_common(s.by));
  if (s.errors > 0) row += fmt::format(" ({} seeds could not be run)", s.errors);
  return row;
}

class Measurement {
 public:
  Measurement(const FuzzOptions& options, const kv::Module& module, SightingsFile file)
      : module_(module), file_(std::move(file)), protocol_(options.protocol) {}

  // Measures how many seeds it takes to find a known-bad variant, and prints its row of the table. Returns
  // false if interrupted, and an error if the results file cannot be written.
  [[nodiscard]] Result<bool> measure(const FuzzOptions& options, const std::string& variant,
                                     const std::string& cells) {
    const SightingsKey key{std::string(build_commit()) + (build_is_dirty() ? " (dirty)" : ""), protocol_,
                           variant, settings_of(options), options.first_seed};
    {
      const Sightings before = file_.of(key);
      Stretch stretch(options, module_, before);
      const cli::Progress progress([&] {
        return fmt::format("{} {}: {} of {} seeds, {} of {} starts", protocol_, variant,
                           before.seeds + stretch.done(), options.seeds,
                           before.finds.size() + stretch.found(), options.starts);
      });
      while (!stretch.is_over()) {
        const std::optional<Sightings> part = stretch.run_part();
        if (!part) return false;
        LOCH_TRY(file_.add(key, *part));
      }
    }
    if (cli::was_interrupted()) return false;
    const Sightings all = file_.of(key);
    found_all_ = found_all_ && !all.finds.empty();
    fmt::print("| {} | {} |\n", cells, row_of(all, options));
    std::fflush(stdout);
    return true;
  }

  [[nodiscard]] bool found_all() const { return found_all_; }

 private:
  const kv::Module& module_;
  SightingsFile file_;
  std::string protocol_;
  bool found_all_ = true;
};

int print_rows(const FuzzOptions& options, const kv::Module& module, const std::string& head,
               const std::vector<std::tuple<FuzzOptions, std::string, std::string>>& all) {
  auto file = SightingsFile::open(options.results);
  if (!file) {
    fmt::print(stderr, "loch fuzz: {}\n", file.error().message);
    return 2;
  }
  fmt::print(
      "| {} | first seed | starts | median | 90th percentile | seeds that find it (95 %) | mostly by |\n",
      head);
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  Measurement measurement(options, module, std::move(*file));
  for (const auto& [one, variant, cells] : all) {
    const Result<bool> measured = measurement.measure(one, variant, cells);
    if (!measured) {
      fmt::print(stderr, "loch fuzz: {}\n", measured.error().message);
      return 2;
    }
    if (!*measured) return 130;
  }
  return measurement.found_all() ? 0 : 1;
}

}  // namespace

FuzzOptions with_hole(FuzzOptions options, const kv::Hole& hole) {
  for (const auto& setting : hole.options) options.settings.emplace_back(setting);
  return options;
}

int measure_mutants(const FuzzOptions& options, const kv::Module& module) {
  std::vector<std::tuple<FuzzOptions, std::string, std::string>> all;
  for (const auto& [mutant, what] : module.mutants()) {
    FuzzOptions one = options;
    one.mutant = mutant;
    all.emplace_back(std::move(one), mutant, fmt::format("`{}` | {}", mutant, what.breaks));
  }
  return print_rows(options, module, "mutant | what it breaks", all);
}

int measure_holes(const FuzzOptions& options, const kv::Module& module) {
  std::vector<std::tuple<FuzzOptions, std::string, std::string>> all;
  for (const kv::Hole& hole : module.holes())
    all.emplace_back(with_hole(options, hole), hole.name, fmt::format("{} | {}", hole.name, hole.what));
  return print_rows(options, module, "hole | what goes wrong", all);
}

}  // namespace loch::fuzz
