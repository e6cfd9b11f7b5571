// The flags of loch fuzz, its threads, and what it prints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "app/cli/bench_options.h"
#include "app/cli/flags.h"
#include "app/cli/interrupt.h"
#include "app/cli/registry.h"
#include "app/fuzz/campaign.h"
#include "app/fuzz/findings.h"
#include "app/fuzz/fuzz.h"
#include "app/fuzz/long_campaign.h"
#include "app/fuzz/mutants.h"
#include "app/fuzz/replay_command.h"
#include "app/fuzz/shrunk_table.h"
#include "common/base/nearest.h"
#include "common/check/history.h"

namespace loch::fuzz {
namespace {

constexpr const char* usage =
    "Usage: loch fuzz [flags]\n"
    "  --protocol P       protocol to run (nessie)\n"
    "  --seeds N          how many seeds (1000)\n"
    "  --first-seed S     the first of them (1)\n"
    "  --time T, --for T  stop after this much real time: 60s, 8h\n"
    "  --mutant M         a known-bad variant: loch list mutants\n"
    "  --mutants          how many seeds it takes to find each mutant, as a Markdown table: median and 90th\n"
    "                     percentile of independent starts (of each at most --seeds, 5000, and --time)\n"
    "  --holes            the same for each hole of the published design: loch list holes\n"
    "  --starts N         how many starts, one behind the other (100)\n"
    "  --results FILE     keep what was measured in FILE, and go on with what it holds of this commit\n"
    "  --set KEY=VALUE    fix a protocol option instead of drawing it\n"
    "  --hardware NAME    profile whose times are used (connectx3-10gbe)\n"
    "  --jobs N           threads (one a core)\n"
    "  --coverage         the probes that the seeds reached; one that none did is exit status 1\n"
    "  --unfair clock     clocks differ by more than the margin that the protocol is told\n"
    "  --keep-going       report every finding, not only the first (of a variant with holes: of each)\n"
    "  --history FILE     write the history of the first finding\n"
    "  --verbose          a line for every seed\n"
    "  --no-shrink        store findings as they are, not made small\n"
    "  --shrink-runs N    runs that making one small may take (4000)\n"
    "  --findings DIR     where findings are stored and drawn (the current folder)\n"
    "  --replay FILE      run a stored scenario again; --mutant (or none) and --set override what it says\n"
    "  --html FILE        and draw it\n"
    "  --corpus DIR       a long campaign: scenarios that reach something new are kept in DIR, changed and "
    "run\n"
    "                     again; goes on where it was interrupted\n"
    "  --shrunk           with --mutants, --holes: how small their scenarios become\n"
    "Each seed draws its own cluster, workload, knobs, timing, faults and failures. Of a variant with holes, "
    "all "
    "seeds\n"
    "are run, and a finding names the holes whose fixes make it go away. Exit status 0: nothing found; 1: "
    "found;\n"
    "2: bad input. Example: loch fuzz --protocol pilaf --seeds 2000 --coverage\n";

Result<std::uint64_t> whole(const std::string& flag, const std::string& text, std::uint64_t least) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\" is not a whole number of at least {}", flag, text, least));
  }
  return value;
}

Result<> apply(const std::string& flag, const std::string& value, FuzzOptions& o) {
  if (flag == "--protocol") {
    o.protocol = value;
  } else if (flag == "--mutant") {
    o.mutant = value;
  } else if (flag == "--hardware") {
    o.hardware = value;
  } else if (flag == "--history") {
    o.history = value;
  } else if (flag == "--findings") {
    o.findings = value;
  } else if (flag == "--replay") {
    o.replay = value;
  } else if (flag == "--html") {
    o.html = value;
  } else if (flag == "--corpus") {
    o.corpus = value;
  } else if (flag == "--seeds") {
    LOCH_ASSIGN(o.seeds, whole(flag, value, 1));
  } else if (flag == "--starts") {
    LOCH_ASSIGN(o.starts, whole(flag, value, 1));
  } else if (flag == "--results") {
    o.results = value;
  } else if (flag == "--first-seed") {
    LOCH_ASSIGN(o.first_seed, whole(flag, value, 0));
  } else if (flag == "--shrink-runs") {
    LOCH_ASSIGN(o.shrink_runs, whole(flag, value, 1));
  } else if (flag == "--jobs") {
    LOCH_ASSIGN(const std::uint64_t jobs, whole(flag, value, 1));
    o.jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(jobs, 1024));
  } else if (flag == "--time" || flag == "--for") {
    LOCH_ASSIGN(o.time, parse_duration(value, flag));
  } else if (flag == "--unfair") {
    if (value != "clock")
      return fail(ErrorCode::invalid_argument, fmt::format("--unfair: \"{}\"; expected clock", value));
    o.unfair_clock = true;
  } else if (flag == "--set") {
    LOCH_ASSIGN(auto setting, cli::split_setting(value));
    o.settings.push_back(std::move(setting));
  }
  return {};
}

// A flag that takes no value.
bool set_switch(const std::string& flag, FuzzOptions& o) {
  const std::pair<std::string_view, bool*> all[] = {
      {"--keep-going", &o.keep_going}, {"--verbose", &o.verbose},     {"--coverage", &o.coverage},
      {"--holes", &o.all_holes},       {"--mutants", &o.all_mutants}, {"--shrunk", &o.shrunk}};
  if (flag == "--no-shrink") {
    o.shrink_runs = 0;
    return true;
  }
  for (const auto& [name, is_on] : all) {
    if (flag != name) continue;
    *is_on = true;
    return true;
  }
  return false;
}

// The protocol exists, the mutant is one of its, and every setting is an option of it.
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

// What failed in the campaign: where nothing did, "nothing found" says little.
void print_events(const Campaign& campaign) {
  std::string text;
  for (const auto& [kind, count] : campaign.events_by_kind()) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  fmt::print("failures: {}\n", text.empty() ? "none" : text);
}

// False: some probe was never reached.
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

// False: it could not be written, which has been said.
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
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_cause;  // cause -> count, first seed
  for (const FuzzFinding& finding : findings) {
    const std::string key = finding.cause.empty() ? std::string(name(finding.verdict))
                                                  : finding.cause.substr(0, finding.cause.find(':'));
    auto& [count, first] = by_cause[key];
    if (count++ == 0) first = finding.seed;
    if (!o.keep_going && count > 1) continue;
    fmt::print("{}", report(finding, o));
    // Only the first finding of each cause is stored, so that this takes a bounded time.
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

// Flags that do not go together.
Result<> check_modes(const FuzzOptions& o, bool protocol_given) {
  const auto refuse = [](const char* text) { return fail(ErrorCode::invalid_argument, text); };
  const bool is_table = o.all_mutants || o.all_holes;
  if (o.shrunk && !is_table) return refuse("--shrunk: of --mutants or --holes");
  if (!o.html.empty() && o.replay.empty()) return refuse("--html: draws the run of --replay FILE");
  if (!o.replay.empty() && (protocol_given || is_table || !o.corpus.empty()))
    return refuse("--replay: the file says what runs; leave out --protocol, --mutants, --holes and --corpus");
  if (!o.corpus.empty() && (is_table || o.unfair_clock))
    return refuse("--corpus: leave out --mutants, --holes and --unfair");
  return {};
}

}  // namespace

Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  const std::vector<std::string> flags = {
      "--protocol", "--seeds",  "--first-seed", "--time",        "--for",        "--mutant",   "--set",
      "--hardware", "--jobs",   "--mutants",    "--holes",       "--keep-going", "--history",  "--verbose",
      "--coverage", "--unfair", "--shrunk",     "--shrink-runs", "--no-shrink",  "--findings", "--replay",
      "--html",     "--corpus", "--help",       "--starts",      "--results"};
  FuzzOptions o;
  bool seeds_given = false, protocol_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto [flag, value, has_value] = cli::split_flag(arguments[i]);
    LOCH_TRY(cli::known_flag(flag, flags));
    if (set_switch(flag, o)) continue;
    seeds_given = seeds_given || flag == "--seeds";
    protocol_given = protocol_given || flag == "--protocol";
    if (!has_value) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    LOCH_TRY(apply(flag, value, o));
  }
  if (o.all_mutants && o.all_holes && !o.shrunk)
    return fail(ErrorCode::invalid_argument, "--holes: measured by themselves; leave out --mutants");
  if ((o.all_mutants || o.all_holes) && !o.mutant.empty())
    return fail(ErrorCode::invalid_argument, "--mutants, --holes: measure every one; leave out --mutant");
  if (!o.all_mutants && !o.all_holes && !o.results.empty())
    return fail(ErrorCode::invalid_argument, "--results: of --mutants and --holes, which are missing");
  if ((o.all_mutants || o.all_holes) && !seeds_given) o.seeds = 5000;
  LOCH_TRY(check_modes(o, protocol_given));
  if (!o.replay.empty()) return o;
  LOCH_TRY(check_names(o, registry));
  if (o.shrunk && !protocol_given) o.protocol.clear();
  return o;
}

int run_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    fmt::print("{}", usage);
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
  if (!options->corpus.empty())
    return run_long(*options, **cli::find_protocol(registry, options->protocol), registry);
  if (options->all_holes) return measure_holes(*options, **cli::find_protocol(registry, options->protocol));
  if (options->all_mutants)
    return measure_mutants(*options, **cli::find_protocol(registry, options->protocol));
  Campaign campaign(*options, **cli::find_protocol(registry, options->protocol));
  campaign.run();
  return conclude(*options, campaign);
}

}  // namespace loch::fuzz
