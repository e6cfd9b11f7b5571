// Parses the options of one exploration, and writes them as one line.
#include "app/cli/explore_options.h"

#include <fmt/format.h>

#include <ranges>

#include "app/cli/judging.h"
#include "app/cli/registry.h"
#include "common/base/nearest.h"

namespace loch::cli {

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
