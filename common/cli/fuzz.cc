#include "common/cli/fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/cli/fuzz_cause.h"
#include "common/cli/fuzz_scenario.h"
#include "common/cli/judging.h"

namespace loch::cli {
namespace {

// Keeps a run's operations; the simulation has one thread.
class MemoryLog final : public workloads::OperationLog {
 public:
  explicit MemoryLog(std::vector<check::Operation>& into) : into_(into) {}
  void invoked(check::OpKind kind, std::string_view key, std::optional<std::string_view> value,
               Nanos invoke_ns) override {
    pending_ = check::Operation{.client = 0,
                                .kind = kind,
                                .outcome = check::Outcome::unknown,
                                .key = std::string(key),
                                .value = value ? std::optional<std::string>(*value) : std::nullopt,
                                .invoke_ns = invoke_ns,
                                .return_ns = std::nullopt};
  }
  void record(const check::OperationView& o) override {
    pending_.reset();
    into_.push_back({o.client, o.kind, o.outcome, std::string(o.key),
                     o.value ? std::optional<std::string>(*o.value) : std::nullopt, o.invoke_ns,
                     o.return_ns});
  }
  // A PUT or DELETE that never returned may have taken effect.
  ~MemoryLog() override {
    if (pending_) into_.push_back(*pending_);
  }

 private:
  std::vector<check::Operation>& into_;
  std::optional<check::Operation> pending_;
};

check::CheckOptions judging_of(const FuzzScenario& scenario) {
  // What was not preloaded was absent; the checker knows one start for all keys.
  const workloads::Records::Shape& records = scenario.plan.records;
  return judging(*scenario.plan.module, scenario.plan.options,
                 records.preloaded < records.most ? check::Initial::any : check::Initial::present);
}

// Of the store's own safety check.
double violations(const workloads::RunOutcome& outcome) {
  const auto found = outcome.protocol_counters.find(std::string(kv::violations_counter));
  return found == outcome.protocol_counters.end() ? 0 : found->second;
}

// Sets verdict, reason and sub-history. The graver verdict wins.
void judge(const FuzzScenario& scenario, const workloads::RunOutcome& outcome, std::uint64_t corrupt,
           FuzzFinding& finding) {
  const check::CheckReport report = check::check_operations(finding.history, judging_of(scenario));
  if (report.verdict() != check::Verdict::holds) {
    finding.verdict =
        report.verdict() == check::Verdict::violated ? FuzzVerdict::violated : FuzzVerdict::undecided;
    if (!report.failures.empty()) {
      finding.reason = fmt::format("key {}: {}", report.failures.front().key, report.failures.front().reason);
      finding.sub_history = report.failures.front().sub_history;
      finding.cause =
          cause_of(symptom_of(finding.history, report.failures.front().key), outcome.protocol_counters);
    }
  } else if (const double own = violations(outcome); own > 0) {
    finding.verdict = FuzzVerdict::violated;
    finding.reason = fmt::format("the store's own check failed {} times", own);
  } else if (corrupt > 0) {
    finding.verdict = FuzzVerdict::corrupt;
    finding.reason = fmt::format("{} GETs returned bytes that nobody wrote", corrupt);
  } else if (outcome.end == fabric::RunEnd::deadlock) {
    finding.verdict = FuzzVerdict::deadlock;
    finding.reason = fmt::format("{} operations outstanding and nothing left to happen", outcome.outstanding);
  } else if (outcome.end == fabric::RunEnd::deadline) {
    finding.verdict = FuzzVerdict::overtime;
    finding.reason =
        fmt::format("{} operations outstanding {:g} s after the last fault", outcome.outstanding,
                    static_cast<double>(scenario.sim.deadline - scenario.sim.faults.heal_at) / 1e9);
  } else if (!outcome.stuck.empty()) {
    finding.verdict = FuzzVerdict::stuck;
    finding.reason = fmt::format("{} of the final sweep's operations got nowhere, the first: {}",
                                 outcome.stuck.size(), outcome.stuck.front());
  }
}

// Profiles are read from YAML once, not once a seed.
Result<fabric::sim::HardwareProfile> hardware_of(const std::string& name) {
  static thread_local std::map<std::string, fabric::sim::HardwareProfile> known;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  LOCH_ASSIGN(fabric::sim::HardwareProfile profile, fabric::sim::load_hardware(name));
  return known.emplace(name, std::move(profile)).first->second;
}

Result<> run_scenario(FuzzScenario& scenario, const std::string& hardware, FuzzFinding& finding) {
  LOCH_ASSIGN(scenario.sim.hardware, hardware_of(hardware));
  if (!scenario.keeps_memory_in_order) scenario.sim.hardware.nic.is_in_order_placement = false;
  LOCH_ASSIGN(std::unique_ptr<fabric::Fabric> fabric, fabric::sim::make_sim(scenario.sim));
  scenario.plan.logs = [&](std::int32_t) { return std::make_unique<MemoryLog>(finding.history); };
  auto outcome = workloads::run_load(*fabric, scenario.plan);
  if (!outcome) return std::unexpected(std::move(outcome.error()));
  if (const auto& sim = outcome->sim) {
    finding.trace_hash = sim->trace_hash;
    finding.events = sim->events;
    finding.virtual_s = sim->virtual_s;
  }
  std::uint64_t corrupt = 0;
  for (const measure::NodePart& node : outcome->nodes) corrupt += node.tally.corrupt;
  finding.operations = finding.history.size();
  judge(scenario, *outcome, corrupt, finding);
  return {};
}

}  // namespace

std::string_view name(FuzzVerdict verdict) {
  constexpr std::array<std::string_view, 8> names = {"holds",    "violated", "corrupt",   "stuck",
                                                     "deadlock", "overtime", "undecided", "error"};
  return names[static_cast<std::size_t>(verdict)];
}

FuzzFinding fuzz_seed(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module) {
  FuzzFinding finding;
  finding.seed = seed;
  Result<> done;
  // A cuckoo table so small may have no place for its keys; then the same seed gets a larger one.
  constexpr std::uint32_t tables = 16;
  for (std::uint32_t slack = 0; slack < tables; ++slack) {
    finding.history.clear();
    auto scenario = draw_scenario(seed, module, options.mutant, options.settings, 2 * slack);
    if (!scenario) {
      done = std::unexpected(scenario.error());
      break;
    }
    finding.scenario = scenario->describe();
    if (options.timing != 0) scenario->sim.seed = Rng(seed, "timing", options.timing)();
    done = run_scenario(*scenario, options.hardware, finding);
    if (done || done.error().code != ErrorCode::exhausted) break;
  }
  if (!done) {
    finding.verdict = FuzzVerdict::error;
    finding.reason = done.error().message;
  }
  if (finding.verdict == FuzzVerdict::holds) finding.history.clear();
  return finding;
}

std::string rerun_line(const FuzzFinding& finding, const FuzzOptions& options) {
  std::string line =
      fmt::format("./loch fuzz --protocol {} --seeds 1 --first-seed {}", options.protocol, finding.seed);
  if (!options.mutant.empty()) line += fmt::format(" --mutant {}", options.mutant);
  if (options.hardware != FuzzOptions().hardware) line += fmt::format(" --hardware {}", options.hardware);
  for (const auto& [key, value] : options.settings) line += fmt::format(" --set {}={}", key, value);
  return line;
}

}  // namespace loch::cli
