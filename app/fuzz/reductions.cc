// The ways to make a scenario smaller, one for each of its dimensions.
#include "app/fuzz/reductions.h"

#include <algorithm>
#include <array>
#include <set>

#include "app/fuzz/failures.h"
#include "app/fuzz/knobs.h"
#include "common/base/check.h"

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using fabric::sim::SimFaults;
using workloads::ScriptedClient;
using workloads::ScriptedOperation;

// Simulated faults that have a probability or rate, which is 0 if the fault is off.
constexpr std::array<double SimFaults::*, 16> shares = {
    &SimFaults::torn_read,  &SimFaults::torn_write,       &SimFaults::torn_landing,
    &SimFaults::late_write, &SimFaults::overtaking_write, &SimFaults::uc_loss,
    &SimFaults::ud_loss,    &SimFaults::ud_reorder,       &SimFaults::rc_loss,
    &SimFaults::rnr,        &SimFaults::clock_drift_ppm,  &SimFaults::slow_dma,
    &SimFaults::pause_rate, &SimFaults::nic_stall_rate,   &SimFaults::cut_rate,
    &SimFaults::interrupted};
constexpr std::array<Nanos SimFaults::*, 3> spans = {&SimFaults::clock_skew, &SimFaults::jitter,
                                                     &SimFaults::lag};

workloads::Script& script(FuzzScenario& s) {
  LOCH_CHECK(s.plan.load.script.has_value(), "a scenario is reduced once its operations are listed");
  return *s.plan.load.script;
}
const workloads::Script& script(const FuzzScenario& s) { return script(const_cast<FuzzScenario&>(s)); }

}  // namespace

std::vector<OperationAt> operations_by_time(const FuzzScenario& s) {
  std::vector<OperationAt> all;
  for (std::size_t client = 0; client < script(s).size(); ++client) {
    for (std::size_t i = 0; i < script(s)[client].operations.size(); ++i) all.push_back({client, i});
  }
  std::ranges::sort(all, {}, [&](OperationAt at) { return std::pair(operation(s, at).at, at); });
  return all;
}

const ScriptedOperation& operation(const FuzzScenario& s, OperationAt at) {
  return script(s).at(at.client).operations.at(at.index);
}

FuzzScenario keep_operations(FuzzScenario s, std::vector<OperationAt> kept) {
  std::ranges::sort(kept);
  workloads::Script smaller;
  std::optional<std::size_t> last;
  for (const OperationAt& at : kept) {
    if (last != at.client) {
      smaller.push_back(script(s)[at.client]);
      smaller.back().operations.clear();
      last = at.client;
    }
    smaller.back().operations.push_back(operation(s, at));
  }
  s.plan.load.script = std::move(smaller);
  return s;
}

std::vector<OperationAt> operations_of(const FuzzScenario& s,
                                       const std::vector<check::Operation>& sub_history) {
  const auto records = workloads::Records::make(s.plan.records);
  std::vector<OperationAt> found;
  if (!records) return found;
  std::vector<std::byte> key(s.plan.records.key_size);
  for (const OperationAt& at : operations_by_time(s)) {
    const ScriptedOperation& one = operation(s, at);
    records->key(one.record, key.data());
    const std::string text = workloads::key_name({key.data(), s.plan.records.key_size});
    const bool is_named = std::ranges::any_of(sub_history, [&](const check::Operation& o) {
      return o.client != check::preload_client && o.key == text && o.invoke_ns == one.at;
    });
    if (is_named) found.push_back(at);
  }
  return found;
}

FuzzScenario sweep_in_script(FuzzScenario s, const ScriptedClient& sweep) {
  workloads::Script& all = script(s);
  auto found = std::ranges::find_if(all, [&](const auto& each) { return each.is_same_client(sweep); });
  if (found == all.end()) {
    all.push_back(sweep);
  } else {
    found->operations.insert(found->operations.end(), sweep.operations.begin(), sweep.operations.end());
  }
  s.plan.load.swept.emplace();
  return s;
}

FuzzScenario without_failure(FuzzScenario s, std::size_t place) {
  const auto at = static_cast<std::ptrdiff_t>(place);
  s.sim.faults.schedule.erase(s.sim.faults.schedule.begin() + at);
  s.failures.repair_after.erase(s.failures.repair_after.begin() + at);
  if (s.sim.faults.schedule.empty()) s.failures.has_schedule = false;
  plan_repairs(s);
  return s;
}

// Number of simulated faults that can be switched off: those with probabilities, those with durations, and
// four others (early failures of the NIC, memory out of order, random order of simultaneous events, split
// atomics).
std::size_t weaknesses() { return shares.size() + spans.size() + 4; }

std::optional<FuzzScenario> without_weakness(FuzzScenario s, std::size_t number) {
  if (number < shares.size()) {
    if (s.sim.faults.*shares[number] == 0) return std::nullopt;
    s.sim.faults.*shares[number] = 0;
    return s;
  }
  number -= shares.size();
  if (number < spans.size()) {
    if (s.sim.faults.*spans[number] == 0) return std::nullopt;
    s.sim.faults.*spans[number] = 0;
    return s;
  }
  switch (number - spans.size()) {
    case 0:
      if (!s.failures.retries || s.failures.has_schedule) return std::nullopt;
      s.failures.retries.reset();
      plan_repairs(s);
      return s;
    case 1:
      if (s.keeps_memory_in_order) return std::nullopt;
      s.keeps_memory_in_order = true;
      return s;
    case 2:
      if (!s.sim.random_tie_order) return std::nullopt;
      s.sim.random_tie_order = false;
      return s;
    case 3:
      if (!s.sim.faults.split_atomics) return std::nullopt;
      s.sim.faults.split_atomics = false;
      return s;
    default:
      return std::nullopt;
  }
}

std::vector<std::string> droppable_knobs(const FuzzScenario& s) {
  using Role = kv::OptionRole;
  constexpr std::array free = {
      Role::none,         Role::cache,       Role::cache_share,  Role::background_period,
      Role::search_depth, Role::backoff_cap, Role::first_number, Role::attempts};
  std::vector<std::string> keys;
  for (const kv::OptionSpec& spec : s.plan.module->options()) {
    if (s.knobs.contains(spec.key) && std::ranges::find(free, spec.role) != free.end())
      keys.push_back(spec.key);
  }
  return keys;
}

std::optional<FuzzScenario> without_knob(FuzzScenario s, const std::string& key) {
  const auto specs = s.plan.module->options();
  const auto spec = std::ranges::find(specs, key, &kv::OptionSpec::key);
  if (spec == specs.end() || s.knobs.erase(key) == 0) return std::nullopt;
  if (!s.plan.options.set_default(key, spec->initial)) return std::nullopt;
  plan_repairs(s);
  return s;
}

FuzzScenario merge_records(FuzzScenario s, std::uint64_t from, std::uint64_t to) {
  for (ScriptedClient& client : script(s)) {
    for (ScriptedOperation& one : client.operations) one.record = one.record == from ? to : one.record;
  }
  if (s.plan.load.swept) std::erase(*s.plan.load.swept, from);
  return s;
}

std::vector<std::uint64_t> records_in_use(const FuzzScenario& s) {
  std::set<std::uint64_t> all;
  for (const ScriptedClient& client : script(s)) {
    for (const ScriptedOperation& one : client.operations) all.insert(one.record);
  }
  if (s.plan.load.swept) all.insert(s.plan.load.swept->begin(), s.plan.load.swept->end());
  return {all.begin(), all.end()};
}

std::optional<FuzzScenario> with_records(FuzzScenario s, std::uint64_t count) {
  const std::vector<std::uint64_t> used = records_in_use(s);
  if (count == 0 || count >= s.plan.records.most || (!used.empty() && used.back() >= count))
    return std::nullopt;
  // load.swept lists the records that the run's final check accesses. If it is not set, the check accesses
  // all records, so that none can be removed.
  if (!s.plan.load.swept) return std::nullopt;
  s.plan.records.most = count;
  s.plan.records.preloaded = std::min(s.plan.records.preloaded, count);
  if (s.plan.records.preloaded == 0) return std::nullopt;
  s.plan.deploy.keys = s.plan.deploy.max_keys = s.plan.records.preloaded;
  s.plan.load.read_only = std::min(s.plan.load.read_only, s.plan.records.preloaded);
  return s;
}

std::optional<FuzzScenario> narrower_window(FuzzScenario s) {
  std::uint32_t most = 0;
  for (const ScriptedClient& client : script(s)) most = std::max(most, client.slot + 1);
  most = std::max(1U, most);
  if (most >= s.plan.deploy.window) return std::nullopt;
  s.plan.deploy.window = most;
  return s;
}

std::optional<FuzzScenario> fewer_workers(FuzzScenario s) {
  kv::DeployConfig& d = s.plan.deploy;
  std::uint32_t most = 1;
  for (const ScriptedClient& client : script(s)) most = std::max<std::uint32_t>(most, client.worker + 1U);
  if (s.failures.has_schedule) most = std::max<std::uint32_t>(most, s.failures.keeper.worker + 1U);
  // Servers are numbered after the clients of a node: removing a client would renumber a killed server.
  // Therefore as many clients stay as the number of the highest killed worker requires.
  for (const ScheduledFault& fault : s.sim.faults.schedule) {
    if (fault.kind == ScheduledFault::Kind::kill) most = std::max<std::uint32_t>(most, fault.worker + 1U);
  }
  if (most >= d.client_workers) return std::nullopt;
  d.client_workers = most;
  s.plan.load.readers = std::min(s.plan.load.readers, most - 1);
  return s;
}

std::optional<FuzzScenario> fewer_nodes(FuzzScenario s) {
  kv::DeployConfig& d = s.plan.deploy;
  std::uint32_t most = std::max(2U, d.server_nodes + 1);
  for (const ScriptedClient& client : script(s)) most = std::max<std::uint32_t>(most, client.node + 1U);
  for (const ScheduledFault& fault : s.sim.faults.schedule)
    most = std::max<std::uint32_t>({most, fault.node + 1U, fault.peer + 1U});
  if (s.failures.has_schedule) most = std::max<std::uint32_t>(most, s.failures.keeper.node + 1U);
  if (most >= d.nodes) return std::nullopt;
  d.nodes = s.sim.nodes = most;
  plan_repairs(s);
  return s;
}

FuzzScenario sooner(FuzzScenario s, Nanos from, Nanos by) {
  const auto move = [&](Nanos& at) {
    if (at >= from) at = std::max<Nanos>(at - by, 0);
  };
  for (ScriptedClient& client : script(s)) {
    for (ScriptedOperation& one : client.operations) move(one.at);
  }
  for (ScheduledFault& fault : s.sim.faults.schedule) move(fault.at);
  plan_repairs(s);
  return s;
}

}  // namespace loch::fuzz
