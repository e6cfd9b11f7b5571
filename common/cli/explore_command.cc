// The flags of loch explore, and what it prints.
#include "common/cli/explore_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "common/cli/bench_options.h"
#include "common/cli/flags.h"
#include "common/cli/interrupt.h"
#include "common/cli/judging.h"
#include "common/cli/progress.h"
#include "common/cli/registry.h"
#include "common/explore/explorer.h"
#include "common/measure/file.h"

namespace loch::cli {
namespace {

constexpr const char* usage =
    "Usage: loch explore PROTOCOL [SCENARIO] [flags]\n"
    "Every interleaving of the protocol's own code, one work request at a time, for a small scenario.\n"
    "  SCENARIO         clients, separated by |, with operations, separated by ; (\"PUT K | DELETE K; GET "
    "K\").\n"
    "                   GET K, PUT K, DELETE K; MIGRATE K where the protocol moves keys. Keys of one letter\n"
    "                   (K, K2) compete for the same slots; every key named is there at the start\n"
    "  --set KEY=VALUE  an option of the protocol (loch list options)\n"
    "  --mutant M       a known-bad variant: loch list mutants\n"
    "  --absent         no key is there at the start\n"
    "  --fail N         at most N requests fail, each executed or not; UC, UD: are lost (0)\n"
    "  --kill N         at most N clients die, each between two of its requests (0)\n"
    "  --clock N        at most N times every clock passes the expiry period (0)\n"
    "  --late N         at most N deadlines pass although what is awaited may still come (0)\n"
    "  --states N       stop after so many states (5000000)\n"
    "  --time T         stop after this much real time: 60s, 10m (no limit)\n"
    "  --no-reduction   make independent moves in every order: slower, the same states\n"
    "  --keep-going     explore everything even after a finding\n"
    "  --json FILE      write states, transitions, seconds, verdict and trace\n"
    "Exit status 0: complete, nothing found; 1: found, with the shortest trace; 3: a bound was reached; 2: "
    "bad\n"
    "input. Example: loch explore nessie \"DELETE K | DELETE K\" --fail 1\n";
constexpr const char* default_scenario = "PUT K | DELETE K; GET K";

struct ExploreOptions {
  std::string protocol, scenario, json, mutant;
  std::vector<std::pair<std::string, std::string>> settings;
  explore::Bounds bounds;
  explore::Limits limits;
  bool is_absent = false;
};

Result<std::uint64_t> whole(const std::string& flag, const std::string& text, std::uint64_t least,
                            std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\"; expected a whole number from {} to {}", flag, text, least, most));
  }
  return value;
}

Result<> apply(const std::string& flag, const std::string& value, ExploreOptions& o) {
  constexpr std::uint64_t most_events = 8;
  const auto small = [&](std::uint32_t& into) -> Result<> {
    LOCH_ASSIGN(const std::uint64_t number, whole(flag, value, 0, most_events));
    into = static_cast<std::uint32_t>(number);
    return {};
  };
  if (flag == "--fail") return small(o.bounds.fails);
  if (flag == "--kill") return small(o.bounds.kills);
  if (flag == "--clock") return small(o.bounds.clocks);
  if (flag == "--late") return small(o.bounds.late);
  if (flag == "--mutant") o.mutant = value;
  if (flag == "--json") o.json = value;
  if (flag == "--states") {
    LOCH_ASSIGN(o.limits.states, whole(flag, value, 1, 1'000'000'000));
  } else if (flag == "--time") {
    LOCH_ASSIGN(o.limits.time, parse_duration(value, flag));
  } else if (flag == "--set") {
    LOCH_ASSIGN(auto setting, split_setting(value));
    o.settings.push_back(std::move(setting));
  }
  return {};
}

Result<ExploreOptions> parse(const std::vector<std::string>& arguments) {
  const std::vector<std::string> flags = {"--set",          "--mutant",     "--absent", "--fail", "--kill",
                                          "--clock",        "--late",       "--states", "--time", "--json",
                                          "--no-reduction", "--keep-going", "--help"};
  ExploreOptions o;
  o.limits.states = 5'000'000;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) {
      words.push_back(arguments[i]);
      continue;
    }
    auto [flag, value, has_value] = split_flag(arguments[i]);
    LOCH_TRY(known_flag(flag, flags));
    const bool is_switch = flag == "--absent" || flag == "--no-reduction" || flag == "--keep-going";
    if (is_switch && has_value) return fail(ErrorCode::invalid_argument, flag + ": takes no value");
    if (flag == "--absent") o.is_absent = true;
    if (flag == "--no-reduction") o.limits.reduces = false;
    if (flag == "--keep-going") o.limits.keeps_going = true;
    if (is_switch) continue;
    if (!has_value) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    LOCH_TRY(apply(flag, value, o));
  }
  if (words.empty() || words.size() > 2) {
    return fail(ErrorCode::invalid_argument,
                words.empty()
                    ? "expected a protocol: loch list protocols"
                    : fmt::format("\"{}\": expected a protocol and one scenario in quotes", words[2]));
  }
  o.protocol = words[0];
  o.scenario = words.size() > 1 ? words[1] : default_scenario;
  return o;
}

Result<explore::Plan> plan_of(const ExploreOptions& o, const kv::Registry& registry) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  const auto mutants = module->mutants();
  if (!o.mutant.empty() && !mutants.contains(o.mutant)) {
    const auto keys = mutants | std::views::keys;
    const std::string near = kv::nearest(o.mutant, std::vector<std::string>(keys.begin(), keys.end()));
    return fail(ErrorCode::invalid_argument,
                fmt::format("--mutant: {} has no mutant \"{}\"{}", o.protocol, o.mutant,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  LOCH_ASSIGN(explore::Scenario scenario, explore::parse_scenario(o.scenario));
  return explore::make_plan({.module = module,
                             .scenario = std::move(scenario),
                             .settings = o.settings,
                             .mutant = o.mutant,
                             .bounds = o.bounds,
                             .is_absent = o.is_absent});
}

std::string rerun_line(const ExploreOptions& o) {
  std::string line = fmt::format("./loch explore {} \"{}\"", o.protocol, o.scenario);
  for (const auto& [key, value] : o.settings) line += fmt::format(" --set {}={}", key, value);
  if (!o.mutant.empty()) line += " --mutant " + o.mutant;
  if (o.is_absent) line += " --absent";
  if (o.bounds.fails > 0) line += fmt::format(" --fail {}", o.bounds.fails);
  if (o.bounds.kills > 0) line += fmt::format(" --kill {}", o.bounds.kills);
  if (o.bounds.clocks > 0) line += fmt::format(" --clock {}", o.bounds.clocks);
  if (o.bounds.late > 0) line += fmt::format(" --late {}", o.bounds.late);
  return line;
}

std::string_view verdict_of(const explore::Exploration& all) {
  if (all.violation) return "found";
  switch (all.ending) {
    case explore::Ending::bound:
      return "bound";
    case explore::Ending::interrupted:
      return "interrupted";
    default:
      return "complete";
  }
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string out = "[";
  for (const std::string& line : lines) out += (out.size() > 1 ? ", " : "") + json_text(line);
  return out + "]";
}

std::string json_of(const ExploreOptions& o, const explore::Exploration& all,
                    const std::vector<std::string>& trace) {
  std::string out = fmt::format(
      "{{\"schema\": \"loch-explore-1\", \"protocol\": {}, \"scenario\": {}, \"mutant\": {}, \"verdict\": "
      "\"{}\", "
      "\"states\": {}, \"transitions\": {}, \"ends\": {}, \"outcomes\": {}, \"depth\": {}, \"seconds\": "
      "{:.3f}, "
      "\"rerun\": {}",
      json_text(o.protocol), json_text(o.scenario), json_text(o.mutant), verdict_of(all), all.states,
      all.transitions, all.ends, all.outcomes.size(), all.depth, all.seconds, json_text(rerun_line(o)));
  if (all.violation) {
    out += fmt::format(", \"is_shortest\": {}, \"reasons\": {}, \"trace\": {}", all.violation->is_shortest,
                       list_of(all.violation->reasons), list_of(trace));
  }
  return out + "}\n";
}

void print_violation(const ExploreOptions& o, const explore::Exploration& all,
                     const std::vector<std::string>& trace) {
  const explore::Violation& violation = *all.violation;
  for (const std::string& reason : violation.reasons) fmt::print("found: {}\n", reason);
  fmt::print("trace of {} moves ({}):\n", violation.moves.size(),
             violation.is_shortest ? "no shorter one shows a violation" : "there may be a shorter one");
  for (const std::string& line : trace) fmt::print("{}\n", line);
  if (!violation.sub_history.empty()) fmt::print("operations that contradict each other:\n");
  for (const check::Operation& operation : violation.sub_history)
    fmt::print("  {}", check::to_line(check::view(operation)));
  fmt::print("rerun: {}\n", rerun_line(o));
}

int conclude(const ExploreOptions& o, const explore::Plan& plan, const explore::Exploration& all) {
  std::vector<std::string> trace;
  if (all.violation) {
    trace = explore::trace_of(plan, all.violation->moves);
    print_violation(o, all, trace);
  }
  fmt::print("{} \"{}\": {}: {} states, {} transitions, {} ends, {} outcomes, depth {}, {:.2f} s\n",
             o.protocol, o.scenario, verdict_of(all), all.states, all.transitions, all.ends,
             all.outcomes.size(), all.depth, all.seconds);
  if (!o.json.empty()) {
    if (auto ok = measure::write_whole(o.json, json_of(o, all, trace)); !ok) {
      fmt::print(stderr, "loch explore: --json: {}\n", ok.error().message);
      return 2;
    }
  }
  if (all.violation) return 1;
  if (all.ending == explore::Ending::interrupted) return 130;
  return all.ending == explore::Ending::bound ? 3 : 0;
}

}  // namespace

int run_explore(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    fmt::print("{}", usage);
    return 0;
  }
  const auto refuse = [](const Error& error) {
    fmt::print(stderr, "loch explore: {}\n", error.message);
    return 2;
  };
  const auto options = parse(arguments);
  if (!options) return refuse(options.error());
  const auto plan = plan_of(*options, registry);
  if (!plan) return refuse(plan.error());
  const InterruptScope guard(nullptr);
  explore::Count count;
  explore::Exploration all;
  {
    const Progress progress([&count] {
      return fmt::format("{}{} states, {} transitions, depth {}",
                         count.is_shortening ? "shortening the trace; " : "", count.states.load(),
                         count.transitions.load(), count.depth.load());
    });
    const check::CheckOptions rules = judging(*plan->module, plan->options, check::Initial::any);
    all = explore::explore(*plan, rules, options->limits, count, &was_interrupted);
  }
  return conclude(*options, *plan, all);
}

}  // namespace loch::cli
