#include "common/fuzz/mutants.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "common/cli/interrupt.h"
#include "common/fuzz/campaign.h"

namespace loch::fuzz {
namespace {

// Prints a row; whether it was found, or nothing where it was interrupted.
std::optional<bool> measure(FuzzOptions options, const kv::Module& module, const std::string& name_cells) {
  options.first_only = true;
  Campaign campaign(options, module);
  campaign.run();
  if (cli::was_interrupted()) return std::nullopt;
  const std::vector<FuzzFinding> findings = campaign.findings();
  if (findings.empty()) {
    fmt::print("| {} | not in {} | |\n", name_cells, campaign.done());
    return false;
  }
  const FuzzFinding& first = findings.front();
  fmt::print("| {} | {} | {}, in `{}` |\n", name_cells, first.seed - options.first_seed + 1,
             name(first.verdict), first.scenario.substr(0, first.scenario.find(':')));
  return true;
}

}  // namespace

FuzzOptions with_hole(FuzzOptions options, const kv::Hole& hole) {
  for (const auto& setting : hole.options) options.settings.emplace_back(setting);
  return options;
}

int measure_mutants(const FuzzOptions& options, const kv::Module& module) {
  bool found_all = true;
  fmt::print("| mutant | what it breaks | seeds to find | by |\n|---|---|---|---|\n");
  for (const auto& [mutant, what] : module.mutants()) {
    FuzzOptions one = options;
    one.mutant = mutant;
    const auto found = measure(std::move(one), module, fmt::format("`{}` | {}", mutant, what.breaks));
    if (!found) return 130;
    found_all = found_all && *found;
  }
  return found_all ? 0 : 1;
}

int measure_holes(const FuzzOptions& options, const kv::Module& module) {
  bool found_all = true;
  fmt::print("| system | hole | what goes wrong | seeds to find | by |\n|---|---|---|---|---|\n");
  for (const kv::Hole& hole : module.holes()) {
    const auto found = measure(with_hole(options, hole), module,
                               fmt::format("{} | {} | {}", module.name(), hole.name, hole.what));
    if (!found) return 130;
    found_all = found_all && *found;
  }
  return found_all ? 0 : 1;
}

}  // namespace loch::fuzz
