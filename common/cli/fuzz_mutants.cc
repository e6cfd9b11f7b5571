#include "common/cli/fuzz_mutants.h"

#include <fmt/format.h>

#include "common/cli/fuzz_campaign.h"
#include "common/cli/interrupt.h"

namespace loch::cli {

int measure_mutants(const FuzzOptions& options, const kv::Module& module) {
  bool found_all = true;
  fmt::print("| mutant | what it breaks | seeds to find | by |\n|---|---|---|---|\n");
  for (const auto& [mutant, what] : module.mutants()) {
    FuzzOptions one = options;
    one.mutant = mutant;
    one.keep_going = false;
    Campaign campaign(one, module);
    campaign.run();
    if (was_interrupted()) return 130;
    const std::vector<FuzzFinding> findings = campaign.findings();
    found_all = found_all && !findings.empty();
    if (findings.empty()) {
      fmt::print("| `{}` | {} | not in {} | |\n", mutant, what.breaks, campaign.done());
      continue;
    }
    const FuzzFinding& first = findings.front();
    fmt::print("| `{}` | {} | {} | {}, in `{}` |\n", mutant, what.breaks, first.seed - options.first_seed + 1,
               name(first.verdict), first.scenario.substr(0, first.scenario.find(':')));
  }
  return found_all ? 0 : 1;
}

}  // namespace loch::cli
