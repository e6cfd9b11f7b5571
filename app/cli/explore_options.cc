// The flags of an exploration.
#include "app/cli/explore_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ranges>

#include "app/cli/bench_options.h"
#include "app/cli/flags.h"
#include "app/cli/judging.h"
#include "app/cli/registry.h"
#include "common/base/nearest.h"

namespace loch::cli {

Result<std::uint64_t> parse_whole(const std::string& flag, const std::string& text, std::uint64_t least,
                                  std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\"; expected a whole number from {} to {}", flag, text, least, most));
  }
  return value;
}

namespace {

constexpr const char* default_scenario = "PUT K | DELETE K; GET K";

Result<> apply(const std::string& flag, const std::string& value, ExploreOptions& o) {
  constexpr std::uint64_t most_events = 8, most_switches = 1000, most_value_bytes = 1024;
  const auto small = [&](std::uint32_t& into) -> Result<> {
    LOCH_ASSIGN(const std::uint64_t number, parse_whole(flag, value, 0, most_events));
    into = static_cast<std::uint32_t>(number);
    return {};
  };
  if (flag == "--fail") return small(o.bounds.fails);
  if (flag == "--cut") return small(o.bounds.cuts);
  if (flag == "--kill") return small(o.bounds.kills);
  if (flag == "--clock") return small(o.bounds.clocks);
  if (flag == "--late") return small(o.bounds.late);
  if (flag == "--torn") return small(o.bounds.torn);
  if (flag == "--share") return small(o.share);
  if (flag == "--value-size") {
    LOCH_ASSIGN(const std::uint64_t bytes,
                parse_whole(flag, value, explore::least_value_bytes, most_value_bytes));
    o.value_bytes = static_cast<std::uint32_t>(bytes);
  }
  if (flag == "--window") {
    LOCH_ASSIGN(const std::uint64_t number, parse_whole(flag, value, 1, most_events));
    o.window = static_cast<std::uint32_t>(number);
  }
  if (flag == "--switches") {
    LOCH_ASSIGN(const std::uint64_t number, parse_whole(flag, value, 0, most_switches));
    o.bounds.switches = static_cast<std::uint32_t>(number);
  }
  if (flag == "--keys") o.keys = value;
  if (flag == "--before") o.before = value;
  if (flag == "--mutant") o.mutant = value;
  if (flag == "--json") o.json = value;
  if (flag == "--states") {
    LOCH_ASSIGN(o.limits.states, parse_whole(flag, value, 1, 1'000'000'000));
  } else if (flag == "--time") {
    LOCH_ASSIGN(o.limits.time, parse_duration(value, flag));
  } else if (flag == "--set") {
    LOCH_ASSIGN(auto setting, split_setting(value));
    o.settings.push_back(std::move(setting));
  }
  return {};
}

}  // namespace

Result<ExploreOptions> parse_explore(const std::vector<std::string>& arguments) {
  const std::vector<std::string> flags = {
      "--set",          "--mutant",       "--absent",     "--before", "--fail",  "--cut",
      "--kill",         "--torn",         "--value-size", "--window", "--clock", "--late",
      "--switches",     "--share",        "--keys",       "--states", "--time",  "--json",
      "--no-reduction", "--no-snapshots", "--keep-going", "--help"};
  ExploreOptions o;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with('-')) {
      words.push_back(arguments[i]);
      continue;
    }
    auto [flag, value, has_value] = split_flag(arguments[i]);
    LOCH_TRY(known_flag(flag, flags));
    const bool is_switch =
        flag == "--absent" || flag == "--no-reduction" || flag == "--no-snapshots" || flag == "--keep-going";
    if (is_switch && has_value) return fail(ErrorCode::invalid_argument, flag + ": takes no value");
    if (flag == "--absent") o.is_absent = true;
    if (flag == "--no-reduction") o.limits.reduces = false;
    if (flag == "--no-snapshots") o.limits.saves = false;
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
  o.has_scenario = words.size() > 1;
  o.protocol = words[0];
  o.scenario = words.size() > 1 ? words[1] : default_scenario;
  return o;
}

Result<explore::Plan> plan_of(const ExploreOptions& o, const kv::Registry& registry) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  const auto mutants = module->mutants();
  if (!o.mutant.empty() && !mutants.contains(o.mutant)) {
    const auto keys = mutants | std::views::keys;
    const std::string near = nearest(o.mutant, std::vector<std::string>(keys.begin(), keys.end()));
    return fail(ErrorCode::invalid_argument,
                fmt::format("--mutant: {} has no mutant \"{}\"{}", o.protocol, o.mutant,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  LOCH_ASSIGN(explore::Scenario scenario, explore::parse_scenario(o.scenario, o.keys));
  if (!o.before.empty()) LOCH_TRY(explore::prepare(scenario, o.before));
  return explore::make_plan({.module = module,
                             .scenario = std::move(scenario),
                             .settings = o.settings,
                             .mutant = o.mutant,
                             .bounds = o.bounds,
                             .is_absent = o.is_absent,
                             .share = o.share,
                             .value_bytes = o.value_bytes,
                             .window = o.window});
}

check::CheckOptions judging_of(const explore::Plan& plan) {
  return judging(*plan.module, plan.options, check::Initial::any);
}

std::string describe(const ExploreOptions& o) {
  std::string line = fmt::format("{} \"{}\"", o.protocol, o.scenario);
  for (const auto& [key, value] : o.settings) line += fmt::format(" --set {}={}", key, value);
  if (!o.mutant.empty()) line += " --mutant " + o.mutant;
  if (!o.before.empty()) line += fmt::format(" --before \"{}\"", o.before);
  if (!o.keys.empty()) line += fmt::format(" --keys \"{}\"", o.keys);
  if (o.share > 0) line += fmt::format(" --share {}", o.share);
  if (o.is_absent) line += " --absent";
  if (o.bounds.fails > 0) line += fmt::format(" --fail {}", o.bounds.fails);
  if (o.bounds.cuts > 0) line += fmt::format(" --cut {}", o.bounds.cuts);
  if (o.bounds.kills > 0) line += fmt::format(" --kill {}", o.bounds.kills);
  if (o.bounds.clocks > 0) line += fmt::format(" --clock {}", o.bounds.clocks);
  if (o.bounds.late > 0) line += fmt::format(" --late {}", o.bounds.late);
  if (o.bounds.torn > 0) line += fmt::format(" --torn {}", o.bounds.torn);
  if (o.value_bytes != explore::least_value_bytes) line += fmt::format(" --value-size {}", o.value_bytes);
  if (o.window != 1) line += fmt::format(" --window {}", o.window);
  if (o.bounds.switches) line += fmt::format(" --switches {}", *o.bounds.switches);
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

}  // namespace loch::cli
