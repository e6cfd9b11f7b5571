// Shrinks a scenario by delta debugging: the order of reductions, and the test for accepting a reduced
// scenario.
#include "app/fuzz/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/fuzz/fixes.h"
#include "app/fuzz/reductions.h"
#include "app/fuzz/run.h"

namespace loch::fuzz {
namespace {

using Operations = std::vector<OperationAt>;

class Shrinker {
 public:
  Shrinker(const FuzzFinding& finding, const FuzzOptions& options)
      : options_(options),
        verdict_(finding.verdict),
        best_(*finding.ran),
        found_(finding),
        fixes_(finding.fixed) {
    // If the variant has a single hole (known flaw of the published design), the finding is put down to that
    // hole without an experiment.
    const std::vector<kv::Fix> all = fixes_of(options, *best_.plan.module);
    if (fixes_.empty() && all.size() == 1) fixes_.push_back(all.front().option);
  }

  Shrunk shrink() {
    Shrunk shrunk;
    // Shows the progress; empty in a long campaign, which prints its own progress line.
    std::optional<cli::Progress> progress;
    if (options_.corpus.empty()) progress.emplace([this] { return line(); });
    shrunk.reproduced = list_operations(shrunk.operations_from);
    if (shrunk.reproduced) {
      take_after_the_end();
      take_all_but_the_contradiction();
      for (std::uint64_t before = 0; before != size() && has_budget();) {
        before = size();
        take_in_groups();
        take_operations();
        take_failures();
        take_weaknesses();
        take_knobs();
        take_keys();
        take_from_cluster();
      }
      take_sweep();
      take_waits();
    }
    shrunk.finding = std::move(found_);
    shrunk.finding.ran = std::move(best_);
    shrunk.finding.scenario = shrunk.finding.ran->describe();
    shrunk.runs = runs_;
    return shrunk;
  }

 private:
  [[nodiscard]] bool has_budget() const { return runs_ < options_.shrink_runs && !cli::was_interrupted(); }
  [[nodiscard]] std::string line() const {
    return fmt::format("shrinking {} {} of {} runs, {} operations left",
                       cli::bar(static_cast<double>(runs_) / static_cast<double>(options_.shrink_runs)),
                       runs_.load(), options_.shrink_runs, left_.load());
  }
  // The scenario's size: its numbers of operations, failures, drawn options, records, nodes, client workers
  // on a node, outstanding operations of a worker, and keys checked at the end, added up.
  [[nodiscard]] std::uint64_t size() const {
    const kv::DeployConfig& d = best_.plan.deploy;
    return operations_left(best_) + best_.sim.faults.schedule.size() + best_.knobs.size() +
           best_.plan.records.most + d.nodes + d.client_workers + d.window +
           (best_.plan.load.swept ? best_.plan.load.swept->size() : 0);
  }

  struct Attempt {
    FuzzFinding finding;
    workloads::Transcript transcript;
  };
  // Runs the scenario; nullopt if the run does not show the finding.
  std::optional<Attempt> shows(FuzzScenario& s) {
    Attempt attempt;
    s.plan.load.transcript = &attempt.transcript;
    ++runs_;
    const Result<> done = run_scenario(s, options_.hardware, attempt.finding);
    s.plan.load.transcript = nullptr;
    if (!done || attempt.finding.verdict != verdict_ || !is_of_the_cause(s)) return std::nullopt;
    return attempt;
  }
  // Whether the finding disappears when its known cause (mutant, or known fault of the design) is switched
  // off.
  bool is_of_the_cause(const FuzzScenario& s) {
    if (s.plan.mutant.empty() && fixes_.empty()) return true;
    FuzzScenario sound = s;
    sound.plan.mutant.clear();
    for (const std::string& fix : fixes_) {
      if (!sound.plan.options.set(fix, "true")) return false;
    }
    FuzzFinding finding;
    ++runs_;
    const Result<> done = run_scenario(sound, options_.hardware, finding);
    if (!done) return false;
    // Without its known-bad change, the protocol must pass all checks. With a hole (known flaw) closed by its
    // fix, only the finding's own verdict must disappear, because the variant's other holes may cause other
    // verdicts.
    return fixes_.empty() ? finding.verdict == FuzzVerdict::holds : finding.verdict != verdict_;
  }

  // Number of simulation seeds to try: more for smaller scenarios, whose results depend more on the seed.
  [[nodiscard]] static std::uint32_t timings_for(std::uint64_t operations) {
    return operations > 100 ? 2 : operations > 40 ? 4 : operations > 16 ? 8 : 16;
  }

  bool accept(FuzzScenario candidate, std::uint32_t timings) {
    const std::uint64_t first = candidate.sim.seed;
    for (std::uint32_t i = 0; i < timings && has_budget(); ++i) {
      if (i > 0) candidate.sim.seed = sub_seed(first, "shrink", i);
      std::optional<Attempt> attempt = shows(candidate);
      if (!attempt) continue;
      take(std::move(candidate), std::move(*attempt));
      return true;
    }
    return false;
  }
  bool accept(FuzzScenario candidate) {
    const std::uint32_t timings = timings_for(operations_left(candidate));
    return accept(std::move(candidate), timings);
  }

  void take(FuzzScenario candidate, Attempt attempt) {
    best_ = std::move(candidate);
    keep(std::move(attempt.finding));
    // Sets every operation's begin to the time observed in this run, so that removing other operations does
    // not shift it. Operations that never began are left out.
    FuzzScenario anchored = best_;
    anchored.plan.load.script = std::move(attempt.transcript.load);
    if (anchored.plan.load.script != best_.plan.load.script) {
      if (auto again = shows(anchored)) {
        best_ = std::move(anchored);
        keep(std::move(again->finding));
      }
    }
    left_ = operations_left(best_);
  }
  void keep(FuzzFinding finding) {
    found_.reason = std::move(finding.reason);
    found_.sub_history = std::move(finding.sub_history);
    found_.history = std::move(finding.history);
    found_.trace_hash = finding.trace_hash;
    found_.events = finding.events;
    found_.operations = finding.operations;
    found_.virtual_s = finding.virtual_s;
    found_.events_by_kind = std::move(finding.events_by_kind);
  }

  // Replaces the random mix by a script of the operations that it drew, which gives the same run.
  bool list_operations(std::uint64_t& count) {
    FuzzScenario listed = best_;
    const std::optional<Attempt> original = shows(listed);
    if (!original) return false;
    if (!listed.plan.load.script) {
      listed.plan.load.script = original->transcript.load;
      listed.plan.load.operations = 0;
      listed.plan.load.duration = 0;
      listed.plan.load.swept.emplace();
      for (std::uint64_t i = 0; i < listed.plan.records.preloaded; ++i) listed.plan.load.swept->push_back(i);
    }
    const workloads::ScriptedClient sweep = original->transcript.sweep;
    count = operations_left(listed) + sweep.operations.size();
    if (!accept(listed, 4)) return false;
    // Moves the run's final operations, which check every key, into a client's script, where they can be
    // removed one by one.
    if (verdict_ != FuzzVerdict::stuck && !sweep.operations.empty()) accept(sweep_in_script(best_, sweep), 4);
    return true;
  }

  // Removes operations that begin after the contradiction is complete, because they cannot have influenced
  // it.
  void take_after_the_end() {
    if (found_.sub_history.empty()) return;
    Nanos last = 0;
    for (const check::Operation& o : found_.sub_history)
      last = std::max(last, o.return_ns.value_or(o.invoke_ns));
    Operations kept = operations_by_time(best_);
    const std::size_t all = kept.size();
    std::erase_if(kept, [&](OperationAt at) { return operation(best_, at).at > last; });
    if (kept.size() < all) accept(keep_operations(best_, std::move(kept)), 4);
  }

  // Tries to keep only the contradictory operations; if that fails, also operations near them in time or on
  // the same key.
  void take_all_but_the_contradiction() {
    const Operations named = operations_of(best_, found_.sub_history);
    if (named.empty()) return;
    Nanos from = operation(best_, named.front()).at;
    const std::uint64_t record = operation(best_, named.front()).record;
    const Operations all = operations_by_time(best_);
    const auto only = [&](const std::function<bool(OperationAt)>& wanted) {
      Operations kept = named;
      for (const OperationAt& at : all) {
        if (std::ranges::find(named, at) == named.end() && wanted(at)) kept.push_back(at);
      }
      return kept.size() < all.size() && accept(keep_operations(best_, std::move(kept)), 16);
    };
    const auto is_of_key = [&](OperationAt at) { return operation(best_, at).record == record; };
    const auto is_recent = [&](OperationAt at) { return operation(best_, at).at >= from; };
    if (only([](OperationAt) { return false; })) return;
    if (only([&](OperationAt at) { return is_of_key(at) && is_recent(at); })) return;
    if (only(is_recent)) return;
    if (only(is_of_key)) return;
    for (const Nanos before : {20'000, 100'000, 500'000}) {
      from -= before;
      if (only(is_recent)) return;
    }
  }

  // Tries to remove groups of elements, first groups of half the elements and at last single ones. `count`
  // returns the number of elements; `without(from, to)` returns the scenario without elements `from` to `to`
  // - 1.
  void take_groups(
      const std::function<std::size_t()>& count,
      const std::function<std::optional<FuzzScenario>(std::size_t from, std::size_t to)>& without) {
    for (std::size_t group = std::max<std::size_t>(1, count() / 2); has_budget(); group /= 2) {
      bool has_taken = false;
      // Groups of elements are removed from the end of the list to its beginning, because removing a group
      // does not renumber the elements before it.
      for (std::size_t to = count(); to > 0 && has_budget();) {
        const std::size_t from = to > group ? to - group : 0;
        std::optional<FuzzScenario> candidate = without(from, to);
        const bool is_taken = candidate.has_value() && accept(std::move(*candidate));
        has_taken = has_taken || is_taken;
        to = std::min(from, count());
      }
      if (group == 1 && !has_taken) return;
      if (group == 1) group = 2;
    }
  }

  void take_operations() {
    take_groups([this] { return operations_left(best_); },
                [this](std::size_t from, std::size_t to) -> std::optional<FuzzScenario> {
                  Operations kept = operations_by_time(best_);
                  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(from),
                             kept.begin() + static_cast<std::ptrdiff_t>(to));
                  return keep_operations(best_, std::move(kept));
                });
  }

  // Tries to remove all operations of a client, or all operations on a key, at once.
  void take_in_groups() {
    take_groups([this] { return best_.plan.load.script->size(); },
                [this](std::size_t from, std::size_t to) -> std::optional<FuzzScenario> {
                  Operations kept = operations_by_time(best_);
                  std::erase_if(kept, [&](OperationAt at) { return at.client >= from && at.client < to; });
                  return keep_operations(best_, std::move(kept));
                });
    for (const std::uint64_t record : records_in_use(best_)) {
      Operations kept = operations_by_time(best_);
      const std::size_t all = kept.size();
      std::erase_if(kept, [&](OperationAt at) { return operation(best_, at).record == record; });
      if (kept.size() < all) accept(keep_operations(best_, std::move(kept)));
    }
  }

  void take_failures() {
    for (std::size_t i = best_.sim.faults.schedule.size(); i-- > 0 && has_budget();)
      accept(without_failure(best_, i));
  }

  void take_weaknesses() {
    for (std::size_t i = 0; i < weaknesses() && has_budget(); ++i) {
      if (auto candidate = without_weakness(best_, i)) accept(std::move(*candidate));
    }
  }

  void take_knobs() {
    for (const std::string& key : droppable_knobs(best_)) {
      if (auto candidate = without_knob(best_, key); candidate && has_budget()) accept(std::move(*candidate));
    }
  }

  void take_keys() {
    const std::vector<std::uint64_t> used = records_in_use(best_);
    for (std::size_t i = used.size(); i-- > 1 && has_budget();)
      accept(merge_records(best_, used[i], used[0]));
    // For the verdict `stuck` the number of records stays, unless a known cause can be switched off for
    // comparison: with fewer records the table is smaller, which alone could make keys unavailable.
    if (verdict_ == FuzzVerdict::stuck && best_.plan.mutant.empty() && fixes_.empty()) return;
    for (std::uint64_t count = best_.plan.records.most; count-- > 1 && has_budget();) {
      if (auto candidate = with_records(best_, count)) accept(std::move(*candidate));
    }
  }

  void take_from_cluster() {
    for (const auto smaller : {&narrower_window, &fewer_workers, &fewer_nodes}) {
      if (auto candidate = smaller(best_); candidate && has_budget()) accept(std::move(*candidate));
    }
  }

  void take_sweep() {
    if (!best_.plan.load.swept) return;
    take_groups([this] { return best_.plan.load.swept->size(); },
                [this](std::size_t from, std::size_t to) -> std::optional<FuzzScenario> {
                  FuzzScenario smaller = best_;
                  auto& swept = *smaller.plan.load.swept;
                  swept.erase(swept.begin() + static_cast<std::ptrdiff_t>(from),
                              swept.begin() + static_cast<std::ptrdiff_t>(to));
                  return smaller;
                });
  }

  // Shortens long periods in which no operation begins.
  void take_waits() {
    constexpr Nanos short_wait = 10'000;
    Nanos before = 0;
    for (std::size_t i = 0; i < operations_left(best_) && has_budget(); ++i) {
      const Nanos at = operation(best_, operations_by_time(best_)[i]).at;
      const Nanos wait = at - before - short_wait;
      if (wait > short_wait) accept(sooner(best_, at, wait));
      if (i < operations_left(best_)) before = operation(best_, operations_by_time(best_)[i]).at;
    }
  }

  const FuzzOptions& options_;
  const FuzzVerdict verdict_;
  FuzzScenario best_;
  FuzzFinding found_;
  std::vector<std::string> fixes_;
  std::atomic<std::uint64_t> runs_{0}, left_{0};
};

}  // namespace

std::uint64_t operations_left(const FuzzScenario& scenario) {
  return scenario.plan.load.script ? operations_in(*scenario.plan.load.script)
                                   : scenario.plan.load.operations;
}

Shrunk shrink(const FuzzFinding& finding, const FuzzOptions& options) {
  return Shrinker(finding, options).shrink();
}

}  // namespace loch::fuzz
