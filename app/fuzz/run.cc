// Runs a scenario on a simulated cluster, keeps its history in memory, and judges the result.
#include "app/fuzz/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/cli/judging.h"
#include "app/fuzz/cause.h"
#include "common/kv/value.h"

namespace loch::fuzz {
namespace {

// Keeps a run's operations in memory, without locks because a simulation has one thread.
class MemoryLog final : public workloads::OperationLog {
 public:
  MemoryLog(std::vector<check::Operation>& into, std::int32_t client) : into_(into), client_(client) {}
  void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value,
               Nanos invoke_ns) override {
    pending_ = check::Operation{.client = client_,
                                .kind = kind,
                                .outcome = Outcome::unknown,
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
  // Adds to the history an operation that never returned, with the outcome `unknown`, because it may have
  // taken effect.
  ~MemoryLog() override {
    if (pending_) into_.push_back(*pending_);
  }

 private:
  std::vector<check::Operation>& into_;
  std::int32_t client_;
  std::optional<check::Operation> pending_;
};

// Adds every key's initial value to the history.
Result<> record_beginning(const workloads::Records::Shape& shape, std::vector<check::Operation>& history) {
  LOCH_ASSIGN(const workloads::Records records, workloads::Records::make(shape));
  std::vector<std::byte> key(shape.key_size), value(shape.value_size);
  for (std::uint64_t i = 0; i < shape.most; ++i) {
    records.key(i, key.data());
    check::Operation beginning{.client = check::preload_client,
                               .kind = OpKind::remove,
                               .outcome = Outcome::not_found,
                               .key = workloads::key_name({key.data(), shape.key_size}),
                               .value = std::nullopt,
                               .invoke_ns = 0,
                               .return_ns = 0};
    if (i < shape.preloaded) {
      records.value(i, value.data(), shape.value_size);
      beginning.kind = OpKind::put;
      beginning.outcome = Outcome::ok;
      beginning.value = kv::value_name(kv::ValueView{value.data(), shape.value_size, shape.value_size});
    }
    history.push_back(std::move(beginning));
  }
  return {};
}

// Number of violations counted by the store's own safety check.
double violations(const workloads::RunOutcome& outcome) {
  const auto found = outcome.protocol_counters.find(std::string(kv::violations_counter));
  return found == outcome.protocol_counters.end() ? 0 : found->second;
}

// Sets the finding's verdict, reason and sub-history; among several violations, the most serious decides.
void judge(const FuzzScenario& scenario, const workloads::RunOutcome& outcome, std::uint64_t corrupt,
           FuzzFinding& finding) {
  // Initial::absent holds for every key, because the history contains the keys' initial values as operations.
  const check::CheckOptions judged =
      cli::judging(*scenario.plan.module, scenario.plan.options, check::Initial::absent);
  const check::CheckReport report = check::check_operations(finding.history, judged);
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
  } else if (outcome.end == fabric::RunEnd::deadline && finding.events > scenario.sim.most_events) {
    finding.verdict = FuzzVerdict::overtime;
    finding.reason =
        fmt::format("did not end within {} events: {} operations outstanding {:g} s into the run",
                    scenario.sim.most_events, outcome.outstanding, finding.virtual_s);
  } else if (outcome.end == fabric::RunEnd::deadline) {
    finding.verdict = FuzzVerdict::overtime;
    finding.reason =
        fmt::format("{} operations outstanding {:g} s after the last fault", outcome.outstanding,
                    static_cast<double>(scenario.sim.deadline - scenario.sim.faults.heal_at) / 1e9);
  } else if (!outcome.stuck.empty()) {
    finding.verdict = FuzzVerdict::stuck;
    finding.reason = fmt::format("{} of the final sweep's operations got nowhere, the first: {}",
                                 outcome.stuck.size(), outcome.stuck.front());
  } else if (!outcome.unsound.empty()) {
    finding.verdict = FuzzVerdict::unsound;
    finding.reason = fmt::format("{} things are wrong with the tables at rest, the first: {}",
                                 outcome.unsound.size(), outcome.unsound.front());
  }
}

// Counts the injected failures and their effects by name.
void count_events(const FuzzScenario& scenario, const workloads::RunOutcome& outcome, FuzzFinding& finding) {
  auto& all = finding.events_by_kind;
  for (const fabric::sim::ScheduledFault& fault : scenario.sim.faults.schedule)
    ++all[std::string(fabric::sim::name(fault.kind))];
  for (const auto& [kind, count] : outcome.repaired) all[kind] += count;
  for (const auto& [name, value] : outcome.protocol_counters) {
    if (name.find("reconnect") != std::string::npos)
      all["reconnections"] += static_cast<std::uint64_t>(value);
    else if (name.find("ambiguous") != std::string::npos)
      all[name] += static_cast<std::uint64_t>(value);
  }
  for (const check::Operation& operation : finding.history) {
    if (operation.outcome == Outcome::unknown) ++all["unknown outcomes"];
    if (operation.outcome == Outcome::failed) ++all["failed operations"];
  }
}

// The hardware profile, cached so that its YAML file is not read for every seed.
Result<fabric::sim::HardwareProfile> hardware_of(const std::string& name) {
  static thread_local std::map<std::string, fabric::sim::HardwareProfile> known;
  if (const auto found = known.find(name); found != known.end()) return found->second;
  LOCH_ASSIGN(fabric::sim::HardwareProfile profile, fabric::sim::load_hardware(name));
  return known.emplace(name, std::move(profile)).first->second;
}

// Completes the scenario's simulation, and makes the simulated fabric.
Result<std::unique_ptr<fabric::Fabric>> make_fabric(FuzzScenario& scenario, const std::string& hardware) {
  LOCH_ASSIGN(scenario.sim.hardware, hardware_of(hardware));
  fabric::sim::NicProfile& nic = scenario.sim.hardware.nic;
  if (!scenario.keeps_memory_in_order) nic.is_in_order_placement = false;
  if (const auto& retries = scenario.failures.retries) {
    nic.retry_timeout_ns = static_cast<double>(retries->timeout);
    nic.retry_count = retries->count;
    nic.rnr_timer_ns = static_cast<double>(retries->rnr_timer);
    nic.rnr_retry_count = retries->rnr_count;
  }
  if (scenario.sim.most_events == 0)
    scenario.sim.most_events =
        std::max(most_events, scenario.plan.load.operations * most_events_an_operation);
  return fabric::sim::make_sim(scenario.sim);
}

}  // namespace

Result<> try_scenario(FuzzScenario& scenario, const std::string& hardware) {
  LOCH_ASSIGN(const std::unique_ptr<fabric::Fabric> fabric, make_fabric(scenario, hardware));
  LOCH_ASSIGN(const std::unique_ptr<workloads::Deployed> deployed, workloads::set_up(*fabric, scenario.plan));
  return {};
}

Result<> run_scenario(FuzzScenario& scenario, const std::string& hardware, FuzzFinding& finding) {
  finding.history.clear();
  finding.events_by_kind.clear();
  LOCH_ASSIGN(std::unique_ptr<fabric::Fabric> fabric, make_fabric(scenario, hardware));
  scenario.plan.logs = [&](std::int32_t client) {
    return std::make_unique<MemoryLog>(finding.history, client);
  };
  LOCH_TRY(record_beginning(scenario.plan.records, finding.history));
  auto outcome = workloads::run_load(*fabric, scenario.plan);
  scenario.plan.logs = {};
  if (!outcome) return std::unexpected(std::move(outcome.error()));
  if (const auto& sim = outcome->sim) {
    finding.trace_hash = sim->trace_hash;
    finding.events = sim->events;
    finding.virtual_s = sim->virtual_s;
  }
  std::uint64_t corrupt = 0;
  for (const measure::NodePart& node : outcome->nodes) corrupt += node.tally.corrupt;
  finding.operations = finding.history.size();
  count_events(scenario, *outcome, finding);
  judge(scenario, *outcome, corrupt, finding);
  return {};
}

}  // namespace loch::fuzz
