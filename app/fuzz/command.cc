// The command `loch fuzz`: checks which flags go together, starts the chosen mode, and prints results.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "app/cli/bench_options.h"
#include "app/cli/interrupt.h"
#include "app/cli/registry.h"
#include "app/fuzz/campaign.h"
#include "app/fuzz/findings.h"
#include "app/fuzz/fuzz.h"
#include "app/fuzz/fuzz_flags.h"
#include "app/fuzz/long_campaign.h"
#include "app/fuzz/mutants.h"
#include "app/fuzz/replay_command.h"
#include "app/fuzz/shrunk_table.h"
#include "common/base/nearest.h"
#include "common/check/history.h"
#include "common/kv/conflict_kinds.h"

namespace loch::fuzz {
namespace {

// Checks that the protocol exists, has the mutant, and has every option that is set.
Result<> check_names(const FuzzOptions& o, const kv::Registry& registry) {
  LOCH_TRY(cli::find_fabric("sim"));
  LOCH_ASSIGN(const kv::Module* module, cli::find_protocol(registry, o.protocol));
  kv::Options probe(module->options());
  for (const auto& [key, value] : o.settings) LOCH_TRY(probe.set(key, value));
  const auto mutants = module->mutants();
  if (!o.mutant.empty() && !mutants.contains(o.mutant)) {
    const auto keys = mutants | std::views::keys;
    const std::vector<std::string> names(keys.begin(), keys.end());
    const std::string near = nearest(o.mutant, names);
    return fail(ErrorCode::invalid_argument,
                fmt::format("--mutant: {} has no mutant \"{}\"{}", o.protocol, o.mutant,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  return {};
}

// Prints how many failures the campaign injected: without any failure, "nothing found" says little.
void print_events(const Campaign& campaign) {
  std::string text;
  for (const auto& [kind, count] : campaign.events_by_kind()) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  fmt::print("failures: {}\n", text.empty() ? "none" : text);
}

// Prints how often each probe (mark of a rare branch in the code) was passed; returns false if a probe was
// never passed.
bool print_coverage(const Campaign& campaign) {
  bool is_covered = true;
  fmt::print("| probe | seeds | first seed | times |\n|---|---|---|---|\n");
  for (const auto& [probe, reached] : campaign.coverage()) {
    is_covered = is_covered && reached.seeds > 0;
    if (reached.seeds == 0)
      fmt::print("| {} | never | | |\n", probe);
    else
      fmt::print("| {} | {} | {} | {} |\n", probe, reached.seeds, reached.first_seed, reached.times);
  }
  return is_covered;
}

// Stores the finding; returns false, after an error message, if it could not be written.
bool was_stored(const FuzzFinding& finding, const FuzzOptions& o) {
  std::fflush(stdout);
  const Result<std::string> said = shrink_and_store(finding, o, o.findings);
  if (said) {
    fmt::print("{}", *said);
    return true;
  }
  fmt::print(stderr, "loch fuzz: {}\n", said.error().message);
  return false;
}

int conclude(const FuzzOptions& o, const Campaign& campaign) {
  const std::vector<FuzzFinding> findings = campaign.findings();
  // For each cause: the number of findings and the first seed.
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_cause;
  for (const FuzzFinding& finding : findings) {
    const std::string key = finding.cause.empty() ? std::string(name(finding.verdict))
                                                  : finding.cause.substr(0, finding.cause.find(':'));
    auto& [count, first] = by_cause[key];
    if (count++ == 0) first = finding.seed;
    if (!o.keep_going && count > 1) continue;
    fmt::print("{}", report(finding, o));
    // Shrinks and stores only the first finding of each cause, which bounds the time.
    if (count == 1 && !was_stored(finding, o)) return 2;
    fmt::print("\n");
  }
  for (const auto& [cause, seen] : by_cause)
    fmt::print("{:>6} x {} (first: seed {})\n", seen.first, cause, seen.second);
  fmt::print("{}{}: {} seeds, {} operations, {:.1f} M events in {:.1f} s ({:.0f} seeds a second): {}\n",
             o.protocol, o.mutant.empty() ? "" : " mutant " + o.mutant, campaign.done(),
             campaign.operations(), static_cast<double>(campaign.events()) / 1e6, campaign.seconds(),
             static_cast<double>(campaign.done()) / std::max(0.001, campaign.seconds()),
             findings.empty() ? "nothing found" : fmt::format("{} found", findings.size()));
  print_events(campaign);
  const bool is_covered = !o.coverage || print_coverage(campaign);
  if (!findings.empty() && !o.history.empty()) {
    if (auto ok = write_history(findings.front(), o.history); !ok) {
      fmt::print(stderr, "loch fuzz: {}\n", ok.error().message);
      return 2;
    }
  }
  if (cli::was_interrupted()) return 130;
  if (findings.empty()) return is_covered ? 0 : 1;
  return findings.front().verdict == FuzzVerdict::error ? 2 : 1;
}

// Refuses flags that exclude each other.
Result<> check_modes(const FuzzOptions& o, bool protocol_given) {
  const auto refuse = [](const char* text) { return fail(ErrorCode::invalid_argument, text); };
  const bool is_table = o.all_mutants || o.all_holes;
  if (o.all_mutants && o.all_holes && !o.shrunk)
    return refuse("--holes: measured by themselves; leave out --mutants");
  if (is_table && !o.mutant.empty())
    return refuse("--mutants, --holes: measure every one; leave out --mutant");
  if (!o.replay.empty() && (protocol_given || is_table || !o.corpus.empty()))
    return refuse("--replay: the file says what runs; leave out --protocol, --mutants, --holes and --corpus");
  if (!o.corpus.empty() && (is_table || o.unfair_clock || o.conflicts))
    return refuse("--corpus: leave out --mutants, --holes, --unfair and --backoff");
  if (!o.replay.empty() && o.conflicts)
    return refuse("--replay: the file says what runs; leave out --backoff");
  return {};
}

// The configuration of conflict avoidance (waits after failed CASes) of the given kind, with epochs and, for
// waits without an upper bound, a first wait that are short enough for fuzz runs; nullopt: the protocol's own
// back-off.
std::optional<kv::ConflictConfig> conflicts_of(std::string_view kind) {
  using kv::ConflictConfig;
  const auto found = std::ranges::find(kv::conflict_kinds, kind);
  if (found == kv::conflict_kinds.end()) return std::nullopt;
  const auto place = found - kv::conflict_kinds.begin();
  ConflictConfig config{.kind = static_cast<ConflictConfig::Kind>(place), .epoch = 50'000};
  if (config.kind == ConflictConfig::Kind::exponential) config.start = 20;
  return config;
}

// Refuses conflict avoidance (waits after failed CASes) for a protocol whose clients use no CAS.
Result<> check_backoff(const FuzzOptions& o, const kv::Registry& registry) {
  const auto found = registry.find(o.protocol);
  if (!o.conflicts || found == registry.end()) return {};
  const kv::Options options(found->second->options());
  if (found->second->requirements(options).atomic_scope != fabric::AtomicScope::none) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("--backoff: the clients of {} swap no words; leave it out", o.protocol));
}

}  // namespace

Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  FuzzFlags flags;
  LOCH_ASSIGN(const settings::Given given, settings::parse(fuzz_command(flags), arguments));
  FuzzOptions& o = flags.options;
  for (const std::string& text : flags.set) {
    LOCH_ASSIGN(auto setting, cli::split_setting(text));
    o.settings.push_back(std::move(setting));
  }
  if (!flags.shrinks) o.shrink_runs = 0;
  o.unfair_clock = flags.unfair == "clock";
  o.conflicts = conflicts_of(flags.backoff);
  if ((o.all_mutants || o.all_holes) && !given.has("seeds")) o.seeds = seeds_of_tables;
  LOCH_TRY(check_modes(o, given.has("protocol")));
  if (!o.replay.empty()) return o;
  LOCH_TRY(check_names(o, registry));
  LOCH_TRY(check_backoff(o, registry));
  if (o.shrunk && !given.has("protocol")) o.protocol.clear();
  return o;
}

int run_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  if (settings::asks_for_help(arguments)) {
    FuzzFlags flags;
    fmt::print("{}", settings::help(fuzz_command(flags)));
    return 0;
  }
  const auto options = parse_fuzz(arguments, registry);
  if (!options) {
    fmt::print(stderr, "loch fuzz: {}\n", options.error().message);
    return 2;
  }
  const cli::InterruptScope guard(nullptr);
  if (!options->replay.empty()) return run_replay(*options, registry);
  if (options->shrunk) return measure_shrinking(*options, registry);
  const kv::Module& module = **cli::find_protocol(registry, options->protocol);
  if (const Result<> runnable = check_runnable(*options, module); !runnable) {
    fmt::print(stderr, "loch fuzz: {}\n", runnable.error().message);
    return 2;
  }
  if (!options->corpus.empty()) return run_long(*options, module, registry);
  if (options->all_holes) return measure_holes(*options, module);
  if (options->all_mutants) return measure_mutants(*options, module);
  Campaign campaign(*options, module);
  campaign.run();
  return conclude(*options, campaign);
}

}  // namespace loch::fuzz
