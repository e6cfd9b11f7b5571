// Runs a fuzz campaign: hands out seeds to threads, runs and judges each seed, and counts and prints
// findings.
#include "app/fuzz/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/fuzz/fixes.h"

namespace loch::fuzz {

Campaign::Campaign(const FuzzOptions& options, const kv::Module& module)
    : options_(options),
      module_(module),
      ends_at_first_(options.first_only || (!options.keep_going &&
                                            (!options.mutant.empty() || fixes_of(options, module).empty()))) {
}

void Campaign::run() {
  started_ = Clock::now();
  const std::uint32_t jobs =
      options_.jobs != 0 ? options_.jobs : std::max(1U, std::thread::hardware_concurrency());
  const cli::Progress progress([this] { return line(); });
  std::vector<std::thread> threads;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(jobs, options_.seeds));
  for (std::uint32_t i = 1; i < most; ++i) threads.emplace_back([this] { work(); });
  work();
  for (std::thread& thread : threads) thread.join();
}

double Campaign::seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

std::vector<FuzzFinding> Campaign::findings() const {
  std::vector<FuzzFinding> sorted = findings_;
  std::ranges::sort(sorted, {}, &FuzzFinding::seed);
  if (!sorted.empty() && ends_at_first_) sorted.resize(1);
  return sorted;
}

void Campaign::work() {
  while (!is_over()) {
    const std::uint64_t index = next_.fetch_add(1);
    if (index >= options_.seeds) return;
    FuzzFinding finding = fuzz_seed(options_.first_seed + index, options_, module_);
    ++done_;
    events_ += finding.events;
    operations_ += finding.operations;
    count(finding);
    if (options_.verbose) say(finding);
    if (finding.verdict == FuzzVerdict::holds) continue;
    ++found_;
    if (!options_.first_only) explain(finding, options_, module_);
    const std::lock_guard lock(mutex_);
    findings_.push_back(std::move(finding));
  }
}

bool Campaign::is_over() const {
  if (options_.until_covered && is_covered_) return true;
  if (cli::was_interrupted() || (found_ > 0 && ends_at_first_)) return true;
  return options_.time > 0 && seconds() * 1e9 > static_cast<double>(options_.time);
}

void Campaign::count(const FuzzFinding& finding) {
  const std::lock_guard lock(mutex_);
  for (const auto& [kind, count] : finding.events_by_kind) by_kind_[kind] += count;
  reached_.resize(finding.probes.size());
  for (std::size_t i = 0; i < finding.probes.size(); ++i) {
    if (finding.probes[i] == 0) continue;
    Reached& probe = reached_[i];
    if (probe.seeds++ == 0 || finding.seed < probe.first_seed) probe.first_seed = finding.seed;
    probe.times += finding.probes[i];
  }
  if (options_.until_covered) is_covered_ = is_covered();
}

bool Campaign::is_covered() const {
  return std::ranges::all_of(coverage(), [](const auto& each) { return each.second.seeds > 0; });
}

// Counts by the names of probes (marks of rarely taken branches in the code), summed over the places in the
// code that share a name.
std::map<std::string, Campaign::Reached> Campaign::coverage() const {
  std::map<std::string, Reached> all;
  const std::span<const ProbeSite> sites = probe_sites();
  const bool is_remote = std::ranges::any_of(options_.settings, [](const auto& setting) {
    return setting.first.ends_with(".placement") && setting.second == "remote";
  });
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (!is_probe_of(module_, sites[i].name, is_remote)) continue;
    Reached& sum = all[sites[i].name];
    if (i >= reached_.size() || reached_[i].seeds == 0) continue;
    const Reached& one = reached_[i];
    if (sum.seeds == 0 || one.first_seed < sum.first_seed) sum.first_seed = one.first_seed;
    sum.seeds = std::max(sum.seeds, one.seeds);
    sum.times += one.times;
  }
  return all;
}

bool is_probe_of(const kv::Module& module, std::string_view probe, bool is_remote) {
  constexpr std::string_view published = ".published.", remote = ".remote.";
  if (probe.find(published) != std::string_view::npos) return false;
  if ((probe.find(remote) != std::string_view::npos) != is_remote) return false;
  return std::ranges::any_of(module.probes(),
                             [&](const std::string& beginning) { return probe.starts_with(beginning); });
}

void Campaign::say(const FuzzFinding& f) {
  const std::lock_guard lock(mutex_);
  fmt::print("seed {:<8} {:<9} {:016x} {}\n", f.seed, name(f.verdict), f.trace_hash, f.scenario);
}

std::string Campaign::line() const {
  return fmt::format("{} {} of {} seeds, {:.0f} a second, {} found",
                     cli::bar(static_cast<double>(done_) / static_cast<double>(options_.seeds)), done_.load(),
                     options_.seeds, static_cast<double>(done_) / std::max(0.001, seconds()), found_.load());
}

}  // namespace loch::fuzz
