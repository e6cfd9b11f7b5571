// The flags of loch fuzz, its threads, and what it prints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "common/base/version.h"
#include "common/check/history.h"
#include "common/cli/bench_options.h"
#include "common/cli/flags.h"
#include "common/cli/fuzz.h"
#include "common/cli/fuzz_campaign.h"
#include "common/cli/fuzz_mutants.h"
#include "common/cli/interrupt.h"
#include "common/cli/registry.h"

namespace loch::cli {
namespace {

constexpr const char* usage =
    "Usage: loch fuzz [flags]\n"
    "  --protocol P       protocol to run (nessie)\n"
    "  --seeds N          how many seeds (1000)\n"
    "  --first-seed S     the first of them (1)\n"
    "  --time T           stop after this much real time: 60s, 10m\n"
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
    "Each seed draws its own cluster, workload, knobs, timing, faults and failures. Of a variant with holes, "
    "all "
    "seeds\n"
    "are run, and a finding names the holes whose mends make it go away. Exit status 0: nothing found; 1: "
    "found.\n";

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
  } else if (flag == "--seeds") {
    LOCH_ASSIGN(o.seeds, whole(flag, value, 1));
  } else if (flag == "--starts") {
    LOCH_ASSIGN(o.starts, whole(flag, value, 1));
  } else if (flag == "--results") {
    o.results = value;
  } else if (flag == "--first-seed") {
    LOCH_ASSIGN(o.first_seed, whole(flag, value, 0));
  } else if (flag == "--jobs") {
    LOCH_ASSIGN(const std::uint64_t jobs, whole(flag, value, 1));
    o.jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(jobs, 1024));
  } else if (flag == "--time") {
    LOCH_ASSIGN(o.time, parse_duration(value, flag));
  } else if (flag == "--unfair") {
    if (value != "clock")
      return fail(ErrorCode::invalid_argument, fmt::format("--unfair: \"{}\"; expected clock", value));
    o.unfair_clock = true;
  } else if (flag == "--set") {
    LOCH_ASSIGN(auto setting, split_setting(value));
    o.settings.push_back(std::move(setting));
  }
  return {};
}

// The protocol exists, the mutant is one of its, and every setting is an option of it.
Result<> check_names(const FuzzOptions& o, const kv::Registry& registry) {
  LOCH_TRY(find_fabric("sim"));
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  kv::Options probe(module->options());
  for (const auto& [key, value] : o.settings) LOCH_TRY(probe.set(key, value));
  const auto mutants = module->mutants();
  if (!o.mutant.empty() && !mutants.contains(o.mutant)) {
    const auto keys = mutants | std::views::keys;
    const std::vector<std::string> names(keys.begin(), keys.end());
    const std::string near = kv::nearest(o.mutant, names);
    return fail(ErrorCode::invalid_argument,
                fmt::format("--mutant: {} has no mutant \"{}\"{}", o.protocol, o.mutant,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  return {};
}

std::string report(const FuzzFinding& f, const FuzzOptions& o) {
  std::string text = fmt::format("seed {}: {}: {}\n", f.seed, name(f.verdict), f.reason);
  if (!f.cause.empty()) text += fmt::format("  cause    {}\n", f.cause);
  text += fmt::format("  scenario {}\n", f.scenario);
  text +=
      fmt::format("  commit   {}{}, trace hash {:016x}, virtual time {:.6f} s, {} events\n", build_commit(),
                  build_is_dirty() ? " (dirty)" : "", f.trace_hash, f.virtual_s, f.events);
  if (!f.sub_history.empty()) text += "  smallest sub-history that contradicts itself:\n";
  for (const check::Operation& operation : f.sub_history)
    text += "    " + check::to_line(check::view(operation));
  text += fmt::format("  rerun    {}\n", rerun_line(f, o));
  if (f.mended.empty()) return text;
  FuzzOptions mended = o;
  for (const std::string& option : f.mended) mended.settings.emplace_back(option, "true");
  return text + fmt::format("  mended   {}\n", rerun_line(f, mended));
}

Result<> write_history(const FuzzFinding& finding, const std::string& path) {
  LOCH_ASSIGN(const std::unique_ptr<check::HistoryWriter> writer, check::HistoryWriter::create(path));
  for (const check::Operation& operation : finding.history) {
    writer->log(operation.client).record(check::view(operation));
  }
  return writer->close();
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

int conclude(const FuzzOptions& o, const Campaign& campaign) {
  const std::vector<FuzzFinding> findings = campaign.findings();
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_cause;  // cause -> count, first seed
  for (const FuzzFinding& finding : findings) {
    const std::string key = finding.cause.empty() ? std::string(name(finding.verdict))
                                                  : finding.cause.substr(0, finding.cause.find(':'));
    auto& [count, first] = by_cause[key];
    if (count++ == 0) first = finding.seed;
    if (o.keep_going || count == 1) fmt::print("{}\n", report(finding, o));
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
  if (was_interrupted()) return 130;
  if (findings.empty()) return is_covered ? 0 : 1;
  return findings.front().verdict == FuzzVerdict::error ? 2 : 1;
}

}  // namespace

Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  const std::vector<std::string> flags = {
      "--protocol", "--seeds",    "--first-seed", "--time",  "--mutant",     "--set",
      "--hardware", "--jobs",     "--mutants",    "--holes", "--keep-going", "--history",
      "--verbose",  "--coverage", "--unfair",     "--help",  "--starts",     "--results"};
  FuzzOptions o;
  bool seeds_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto [flag, value, has_value] = split_flag(arguments[i]);
    LOCH_TRY(known_flag(flag, flags));
    if (flag == "--keep-going") {
      o.keep_going = true;
      continue;
    }
    if (flag == "--verbose") {
      o.verbose = true;
      continue;
    }
    if (flag == "--coverage") {
      o.coverage = true;
      continue;
    }
    if (flag == "--holes") {
      o.all_holes = true;
      continue;
    }
    if (flag == "--mutants") {
      o.all_mutants = true;
      continue;
    }
    seeds_given = seeds_given || flag == "--seeds";
    if (!has_value) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    LOCH_TRY(apply(flag, value, o));
  }
  if (o.all_mutants && o.all_holes)
    return fail(ErrorCode::invalid_argument, "--holes: measured by themselves; leave out --mutants");
  if ((o.all_mutants || o.all_holes) && !o.mutant.empty())
    return fail(ErrorCode::invalid_argument, "--mutants, --holes: measure every one; leave out --mutant");
  if (!o.all_mutants && !o.all_holes && !o.results.empty())
    return fail(ErrorCode::invalid_argument, "--results: of --mutants and --holes, which are missing");
  if ((o.all_mutants || o.all_holes) && !seeds_given) o.seeds = 5000;
  LOCH_TRY(check_names(o, registry));
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
  const InterruptScope guard(nullptr);
  if (options->all_holes) return measure_holes(*options, **find_protocol(registry, options->protocol));
  if (options->all_mutants) return measure_mutants(*options, **find_protocol(registry, options->protocol));
  Campaign campaign(*options, **find_protocol(registry, options->protocol));
  campaign.run();
  return conclude(*options, campaign);
}

}  // namespace loch::cli
