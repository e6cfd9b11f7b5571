// Runs one seed: draws its scenario, with a table that has room for it, and runs it.
#include "app/fuzz/fuzz.h"

#include <fmt/format.h>

#include <array>

#include "app/fuzz/run.h"
#include "common/check/history.h"
#include "common/kv/conflict_kinds.h"

namespace loch::fuzz {

std::string_view name(FuzzVerdict verdict) {
  constexpr std::array<std::string_view, 9> names = {"holds",    "violated", "corrupt",   "stuck", "unsound",
                                                     "deadlock", "overtime", "undecided", "error"};
  return names[static_cast<std::size_t>(verdict)];
}

FuzzFinding fuzz_seed(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module) {
  FuzzFinding finding;
  finding.seed = seed;
  Result<> done;
  const ProbeScope probes(finding.probes);
  const Unfair unfair = options.unfair_clock ? Unfair::clock : Unfair::none;
  // Most slots to add to the table. A very small cuckoo table may be unable to place its keys; then the same
  // seed is drawn again with more slots.
  constexpr std::uint32_t most_slack = 512;
  for (FuzzRoom room; room.slack < most_slack;) {
    auto scenario = draw_scenario(seed, module, options.mutant, options.settings, room, unfair);
    if (!scenario) {
      done = std::unexpected(scenario.error());
      break;
    }
    scenario->plan.load.conflicts = options.conflicts;
    finding.scenario = scenario->describe();
    if (options.timing != 0) scenario->sim.seed = Rng(seed, "timing", options.timing)();
    done = run_scenario(*scenario, options.hardware, finding);
    if (done) {
      finding.ran = std::move(*scenario);
      break;
    }
    // ErrorCode::exhausted is treated as a table that is too small, although the protocol may also return it
    // if it cannot hold values of this size.
    const bool is_full = done.error().code == ErrorCode::exhausted;
    if (!is_full && room.has_modest_values) break;
    if (is_full)
      room.slack += 2 + room.slack / 2;
    else
      room.has_modest_values = true;
  }
  if (!done) {
    finding.verdict = FuzzVerdict::error;
    finding.reason = done.error().message;
  }
  if (finding.verdict == FuzzVerdict::holds) finding.history.clear();
  return finding;
}

Result<> write_history(const FuzzFinding& finding, const std::string& path) {
  LOCH_ASSIGN(const std::unique_ptr<check::HistoryWriter> writer, check::HistoryWriter::create(path));
  for (const check::Operation& operation : finding.history) {
    writer->log(operation.client).record(check::view(operation));
  }
  return writer->close();
}

std::string rerun_line(const FuzzFinding& finding, const FuzzOptions& options) {
  std::string line =
      fmt::format("./loch fuzz --protocol {} --seeds 1 --first-seed {}", options.protocol, finding.seed);
  if (!options.mutant.empty()) line += fmt::format(" --mutant {}", options.mutant);
  if (options.hardware != FuzzOptions().hardware) line += fmt::format(" --hardware {}", options.hardware);
  for (const auto& [key, value] : options.settings) line += fmt::format(" --set {}={}", key, value);
  if (options.unfair_clock) line += " --unfair clock";
  if (options.conflicts) line += fmt::format(" --backoff {}", name(options.conflicts->kind));
  return line;
}

}  // namespace loch::fuzz
