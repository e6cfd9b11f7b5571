// Reads a suite file of explorations, runs them, and prints each result beside the expected one.
#include "app/cli/explore_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "app/cli/interrupt.h"
#include "app/cli/list.h"
#include "app/cli/progress.h"
#include "app/cli/refusal.h"
#include "app/cli/registry.h"
#include "common/base/file.h"

namespace loch::cli {
namespace {

// Splits a line into words; a quoted text is one word. nullopt if a quote is not closed.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool is_quoted = false, is_word = false;
  for (const char c : line) {
    if (c == '#' && !is_quoted) break;
    const bool is_space = c == ' ' || c == '\t' || c == '\r';
    if (!is_quoted && is_space) {
      is_word = false;
      continue;
    }
    if (!is_word) words.emplace_back();
    is_word = true;
    if (c == '"')
      is_quoted = !is_quoted;
    else
      words.back() += c;
  }
  if (is_quoted) return std::nullopt;
  return words;
}

Result<SuiteEntry> parse_entry(const std::vector<std::string>& words, const kv::Registry& registry) {
  constexpr std::string_view form = "expected GROUP EXPECTED PROTOCOL \"SCENARIO\" [flags]";
  if (words.size() < 4) return refuse(fmt::format("{} words; {}", words.size(), form));
  SuiteEntry entry;
  if (words[0] != "quick" && words[0] != "long")
    return refuse(fmt::format("\"{}\": expected quick or long", words[0]));
  entry.is_quick = words[0] == "quick";
  entry.expected = words[1];
  if (entry.expected != "complete" && entry.expected != "found" && entry.expected != "bound")
    return refuse(fmt::format("\"{}\": expected complete, found or bound", words[1]));
  if (words[2].starts_with('-') || words[3].starts_with('-')) return refuse(std::string(form));
  LOCH_ASSIGN(entry.options, parse_explore({words.begin() + 2, words.end()}));
  if (!entry.options.json.empty()) return refuse("--json: a suite writes none");
  LOCH_TRY(find_protocol(registry, entry.options.protocol));
  LOCH_ASSIGN(auto scenario, explore::parse_scenario(entry.options.scenario, entry.options.keys));
  if (!entry.options.before.empty()) LOCH_TRY(explore::prepare(scenario, entry.options.before));
  return entry;
}

Result<explore::Exploration> explored(const ExploreOptions& options, const kv::Registry& registry,
                                      const std::string& what) {
  LOCH_ASSIGN(const explore::Plan plan, plan_of(options, registry));
  explore::Count count;
  const Progress progress([&count, &what] {
    return fmt::format("{}: {}{} states, depth {}", what, count.is_shortening ? "shortening; " : "",
                       count.states.load(), count.depth.load());
  });
  return explore::explore(plan, judging_of(plan), options.limits, count, &was_interrupted);
}

std::size_t moves_of(const explore::Exploration& all) {
  return all.violation ? all.violation->moves.size() : all.depth;
}

// Runs the file's scenarios and returns the exit status: 0; 1 if a result was not as expected; 130 if
// interrupted.
Result<int> run_entries(const ExploreFlags& o, const std::vector<SuiteEntry>& entries,
                        const kv::Registry& registry) {
  int status = 0;
  double seconds = 0;
  std::uint64_t states = 0;
  fmt::print("{:<9} {:>10} {:>11} {:>6} {:>8}  {}\n", "verdict", "states", "transitions", "moves", "s",
             "scenario");
  for (const SuiteEntry& entry : entries) {
    if ((o.is_quick && !entry.is_quick) || (!o.protocol.empty() && entry.options.protocol != o.protocol))
      continue;
    const std::string what = describe(entry.options);
    LOCH_ASSIGN(const explore::Exploration all, explored(entry.options, registry, what));
    if (all.ending == explore::Ending::interrupted) return 130;
    const bool is_good = is_as_expected(entry, all);
    if (!is_good) status = 1;
    seconds += all.seconds;
    states += all.states;
    fmt::print("{:<9} {:>10} {:>11} {:>6} {:>8.2f}  {}{}\n", verdict_of(all), all.states, all.transitions,
               moves_of(all), all.seconds, what,
               is_good ? "" : fmt::format("  NOT AS EXPECTED: {}", entry.expected));
    if (!is_good && all.violation) fmt::print("          found: {}\n", all.violation->reasons.front());
    std::fflush(stdout);
  }
  fmt::print("{} states in {:.1f} s; {}\n", states, seconds,
             status == 0 ? "all as expected" : "NOT all as expected");
  return status;
}

// The scenarios of the protocol that are expected to find no violation, in the file's order.
std::vector<ExploreOptions> scenarios_for(const std::string& protocol,
                                          const std::vector<SuiteEntry>& entries) {
  std::vector<ExploreOptions> all;
  for (const SuiteEntry& entry : entries) {
    if (entry.options.protocol == protocol && entry.expected != "found") all.push_back(entry.options);
  }
  return all;
}

// Looks for each known-bad variant of a protocol: prints a line for the suite file with the first scenario
// that finds it, or that no scenario finds it.
Result<int> run_mutants(const ExploreFlags& o, const std::vector<SuiteEntry>& entries,
                        const kv::Registry& registry) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.mutants));
  const auto mutants = module->mutants();
  if (!o.each.mutant.empty() && !mutants.contains(o.each.mutant))
    return refuse(fmt::format("--mutant: {} has no mutant \"{}\"", o.mutants, o.each.mutant));
  const std::vector<ExploreOptions> scenarios = scenarios_for(o.mutants, entries);
  if (scenarios.empty()) return refuse(fmt::format("{}: no scenario of {}", o.suite, o.mutants));
  std::size_t found = 0, looked_for = 0;
  fmt::print("# {:<26} {:>9} {:>6} {:>7}\n", "mutant", "states", "moves", "s");
  for (const std::string& mutant : mutants | std::views::keys) {
    if (!o.each.mutant.empty() && mutant != o.each.mutant) continue;
    ++looked_for;
    bool is_found = false;
    for (ExploreOptions options : scenarios) {
      options.mutant = mutant;
      options.limits.shortens = false;
      if (o.given.has("states")) options.limits.states = o.each.limits.states;
      options.limits.time = o.given.has("time") ? o.each.limits.time : time_for_mutant;
      LOCH_ASSIGN(const explore::Exploration all, explored(options, registry, describe(options)));
      if (all.ending == explore::Ending::interrupted) return 130;
      if (!all.violation) continue;
      fmt::print("# {:<26} {:>9} {:>6} {:>7.2f}\nquick found {}\n", mutant, all.states, moves_of(all),
                 all.seconds, describe(options));
      ++found;
      is_found = true;
      break;
    }
    if (!is_found) fmt::print("# {:<26} not found by {} scenarios\n", mutant, scenarios.size());
    std::fflush(stdout);
  }
  fmt::print("# {} of {} found\n", found, looked_for);
  return 0;
}

}  // namespace

std::string default_suite() { return home_folder() + "/tests/explore/scenarios.txt"; }

Result<std::vector<SuiteEntry>> parse_suite(std::string_view text, const std::string& name,
                                            const kv::Registry& registry) {
  std::vector<SuiteEntry> entries;
  std::size_t number = 0;
  for (const auto part : std::views::split(text, '\n')) {
    ++number;
    const auto words = words_of(std::string_view(part.begin(), part.end()));
    if (!words) return refuse(fmt::format("{}:{}: expected a quote that is closed", name, number));
    if (words->empty()) continue;
    auto entry = parse_entry(*words, registry);
    if (!entry) return refuse(fmt::format("{}:{}: {}", name, number, entry.error().message));
    entries.push_back(std::move(*entry));
  }
  if (entries.empty()) return refuse(fmt::format("{}: expected at least one scenario", name));
  return entries;
}

Result<std::vector<SuiteEntry>> read_suite(const std::string& file, const kv::Registry& registry) {
  LOCH_ASSIGN(const std::string text, read_whole(file));
  return parse_suite(text, file, registry);
}

bool is_as_expected(const SuiteEntry& entry, const explore::Exploration& all) {
  const std::string_view verdict = verdict_of(all);
  return verdict == entry.expected || (verdict == "complete" && entry.expected == "bound");
}

int run_explore_suite(ExploreFlags flags, const kv::Registry& registry) {
  if (flags.suite.empty()) flags.suite = default_suite();
  const auto run = [&]() -> Result<int> {
    LOCH_ASSIGN(const std::vector<SuiteEntry> entries, read_suite(flags.suite, registry));
    const InterruptScope guard(nullptr);
    if (!flags.mutants.empty()) return run_mutants(flags, entries, registry);
    return run_entries(flags, entries, registry);
  };
  const Result<int> status = run();
  if (status) return *status;
  fmt::print(stderr, "loch explore: {}\n", status.error().message);
  return 2;
}

}  // namespace loch::cli
