// Runs one seed: draws its scenario, with a table that has room for it, and runs it.
#include "app/fuzz/fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "app/fuzz/run.h"
#include "common/check/history.h"
#include "common/kv/conflict_kinds.h"

namespace loch::fuzz {

std::string_view name(FuzzVerdict verdict) {
  constexpr std::array<std::string_view, 9> names = {"holds",    "violated", "corrupt",   "stuck", "unsound",
                                                     "deadlock", "overtime", "undecided", "error"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

// Draws the seed's scenario and calls `act` with it. A very small cuckoo table may be unable to place its
// keys; then the same seed is drawn again with more slots.
Result<> with_room(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module,
                   const std::function<Result<>(FuzzScenario&)>& act) {
  Result<> done;
  const Unfair unfair = options.unfair_clock ? Unfair::clock : Unfair::none;
  constexpr std::uint32_t most_slack = 512;  // most slots to add to the table
  for (FuzzRoom room; room.slack < most_slack;) {
    LOCH_ASSIGN(FuzzScenario scenario,
                draw_scenario(seed, module, options.mutant, options.settings, room, unfair));
    scenario.plan.load.conflicts = options.conflicts;
    if (options.timing != 0) scenario.sim.seed = Rng(seed, "timing", options.timing)();
    done = act(scenario);
    if (done) break;
    // ErrorCode::exhausted is treated as a table that is too small, although the protocol may also return it
    // if it cannot hold values of this size.
    const bool is_full = done.error().code == ErrorCode::exhausted;
    if (!is_full && room.has_modest_values) break;
    if (is_full)
      room.slack += 2 + room.slack / 2;
    else
      room.has_modest_values = true;
  }
  return done;
}

}  // namespace

FuzzFinding fuzz_seed(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module) {
  FuzzFinding finding;
  finding.seed = seed;
  const ProbeScope probes(finding.probes);
  const Result<> done = with_room(seed, options, module, [&](FuzzScenario& scenario) -> Result<> {
    finding.scenario = scenario.describe();
    LOCH_TRY(run_scenario(scenario, options.hardware, finding));
    finding.ran = std::move(scenario);
    return {};
  });
  if (!done) {
    finding.verdict = FuzzVerdict::error;
    finding.reason = done.error().message;
  }
  if (finding.verdict == FuzzVerdict::holds) finding.history.clear();
  return finding;
}

Result<> check_runnable(const FuzzOptions& options, const kv::Module& module) {
  constexpr std::uint64_t most_seeds = 16;
  std::optional<Error> refusal;
  bool can_run = false;
  const auto attempt = [&](FuzzScenario& scenario) -> Result<> {
    if (!can_run) return try_scenario(scenario, options.hardware);
    // A store was laid out in memory once; for the other seeds it is enough that one can be deployed.
    const workloads::RunPlan& plan = scenario.plan;
    LOCH_ASSIGN(const std::unique_ptr<kv::Store> store,
                module.deploy(plan.deploy, plan.options, plan.mutant));
    return {};
  };
  for (std::uint64_t i = 0; i < std::min(most_seeds, options.seeds); ++i) {
    const Result<> done = with_room(options.first_seed + i, options, module, attempt);
    can_run = can_run || done.has_value();
    if (can_run && options.settings.empty()) return {};
    if (!done && !refusal) refusal = done.error();
  }
  if (refusal) return std::unexpected(*refusal);
  return {};
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
