// Finds each known-bad variant, by its recorded seed if that still works, and shrinks the finding.
#include "app/fuzz/shrunk_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/cli/interrupt.h"
#include "app/fuzz/mutants.h"
#include "app/fuzz/shrink.h"

namespace loch::fuzz {
namespace {

bool is_found(const FuzzFinding& finding) {
  return finding.verdict != FuzzVerdict::holds && finding.verdict != FuzzVerdict::error;
}

// Finds the known-bad variant or hole (known fault) of `options` with the recorded seed or, if the code has
// changed since, with another seed; nullopt if no seed finds it.
std::optional<FuzzFinding> find(const FuzzOptions& options, const kv::Module& module,
                                std::uint64_t recorded) {
  FuzzFinding finding = fuzz_seed(recorded, options, module);
  for (std::uint64_t seed = 1; !is_found(finding) && seed <= options.seeds && !cli::was_interrupted(); ++seed)
    finding = fuzz_seed(seed, options, module);
  if (!is_found(finding)) return std::nullopt;
  return finding;
}

class Table {
 public:
  void row(const FuzzOptions& options, const kv::Module& module, const std::string& variant,
           std::uint64_t recorded) {
    if (cli::was_interrupted()) return;
    const std::optional<FuzzFinding> finding = find(options, module, recorded);
    if (!finding) {
      has_all_ = has_all_ && cli::was_interrupted();
      fmt::print("| {} | {} | not found | | | | | | | |\n", module.name(), variant);
      return;
    }
    const Shrunk shrunk = shrink(*finding, options);
    if (cli::was_interrupted()) return;
    const FuzzScenario& left = *shrunk.finding.ran;
    // At the end of a run every key gets three operations: GET, PUT, GET.
    const std::size_t swept =
        left.plan.load.swept ? left.plan.load.swept->size() : left.plan.records.preloaded;
    const std::uint64_t operations = operations_left(left) + 3 * swept;
    operations_.push_back(operations);
    const kv::DeployConfig& d = left.plan.deploy;
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} x {} | {} | {} |\n", module.name(), variant,
               finding->seed, name(finding->verdict), shrunk.operations_from, operations, 3 * swept, d.nodes,
               d.client_workers, left.sim.faults.schedule.size(), shrunk.runs);
    std::fflush(stdout);
  }

  int conclude() {
    if (cli::was_interrupted()) return 130;
    if (operations_.empty()) return has_all_ ? 0 : 1;
    std::ranges::sort(operations_);
    const std::size_t n = operations_.size();
    fmt::print("\n{} variants: {} operations in the median, {} in the 90th percentile, {} at most\n", n,
               operations_[(n - 1) / 2], operations_[(n - 1) * 9 / 10], operations_.back());
    return has_all_ ? 0 : 1;
  }

 private:
  std::vector<std::uint64_t> operations_;
  bool has_all_ = true;
};

}  // namespace

int measure_shrinking(const FuzzOptions& options, const kv::Registry& protocols) {
  Table table;
  fmt::print(
      "| system | variant | seed | verdict | operations found | left | of them the sweep's | nodes x clients "
      "| "
      "failures | runs "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [protocol, module] : protocols) {
    if (!options.protocol.empty() && protocol != options.protocol) continue;
    FuzzOptions one = options;
    one.protocol = protocol;
    if (options.all_mutants) {
      for (const auto& [mutant, what] : module->mutants()) {
        if (what.first_seed == 0) continue;  // 0: random runs take too long to find the variant
        one.mutant = mutant;
        table.row(one, *module, fmt::format("`{}`", mutant), what.first_seed);
      }
      one.mutant.clear();
    }
    if (!options.all_holes) continue;
    for (const kv::Hole& hole : module->holes())
      table.row(with_hole(one, hole), *module, hole.name, hole.first_seed);
  }
  return table.conclude();
}

}  // namespace loch::fuzz
