// Runs a stored scenario again and prints whether it still shows the stored finding.
#include "app/fuzz/replay_command.h"

#include <fmt/format.h>

#include "app/fuzz/failures.h"
#include "app/fuzz/page.h"
#include "app/fuzz/replay.h"
#include "app/fuzz/run.h"
#include "common/base/output_place.h"
#include "common/check/history.h"

namespace loch::fuzz {
namespace {

// Replaces the replay file's mutant and protocol options by those of the command line.
Result<> override_with(const FuzzOptions& o, Replay& r) {
  const kv::Module& module = *r.scenario.plan.module;
  if (!o.mutant.empty()) {
    r.mutant = o.mutant == "none" ? "" : o.mutant;
    if (!r.mutant.empty() && !module.mutants().contains(r.mutant))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--mutant: {} has no mutant \"{}\"", r.protocol, r.mutant));
    r.scenario.plan.mutant = r.mutant;
  }
  for (const auto& [key, value] : o.settings) {
    LOCH_TRY(r.scenario.plan.options.set(key, value));
    r.scenario.knobs.erase(key);
    r.settings[key] = value;
  }
  plan_repairs(r.scenario);
  return {};
}

Result<FuzzFinding> run(const FuzzOptions& o, const kv::Registry& registry, Replay& r) {
  LOCH_ASSIGN(r, read_replay(o.replay));
  LOCH_TRY(make_runnable(r, registry, o.replay));
  LOCH_TRY(override_with(o, r));
  FuzzFinding finding;
  finding.seed = r.seed;
  if (auto done = run_scenario(r.scenario, r.hardware, finding); !done)
    return fail(done.error().code, fmt::format("{}: {} cannot run the scenario: {}", o.replay, r.protocol,
                                               done.error().message));
  if (!o.html.empty()) LOCH_TRY(write_output(o.html, draw_page(r, finding)));
  if (!o.history.empty()) LOCH_TRY(write_history(finding, o.history));
  return finding;
}

}  // namespace

int run_replay(const FuzzOptions& o, const kv::Registry& registry) {
  Replay r;
  const Result<FuzzFinding> finding = run(o, registry, r);
  if (!finding) {
    fmt::print(stderr, "loch fuzz: {}\n", finding.error().message);
    return 2;
  }
  const bool is_same_run =
      finding->trace_hash == r.trace_hash && history_hash(finding->history) == r.history_hash;
  fmt::print("{}{}: {}\n", r.protocol, r.mutant.empty() ? "" : " mutant " + r.mutant, r.scenario.describe());
  fmt::print("stored   {}{}{}\n", name(r.verdict), r.reason.empty() ? "" : ": ", r.reason);
  if (finding->verdict == FuzzVerdict::holds) {
    fmt::print("now      nothing shows\n");
  } else {
    fmt::print("now      {}: {}{}\n", name(finding->verdict), finding->reason,
               finding->verdict == r.verdict ? "" : " (another verdict than the stored one)");
  }
  for (const check::Operation& operation : finding->sub_history)
    fmt::print("    {}", check::to_line(check::view(operation)));
  fmt::print(
      "trace hash {:016x}: {}\n", finding->trace_hash,
      is_same_run ? "the same run, event by event" : "not the run that was stored (commit " + r.commit + ")");
  return finding->verdict == FuzzVerdict::holds ? 0 : 1;
}

}  // namespace loch::fuzz
