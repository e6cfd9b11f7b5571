// Checks that the parts of a scenario read from a file are consistent.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "app/fuzz/failures.h"
#include "app/fuzz/scenario_fields.h"

namespace loch::fuzz {
namespace {

using fabric::sim::ScheduledFault;
using Kind = ScheduledFault::Kind;

std::unexpected<Error> wrong(std::string_view key, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: expected {}", key, expected));
}

Result<> check_cluster(const FuzzScenario& s) {
  const kv::DeployConfig& d = s.plan.deploy;
  if (d.server_nodes >= d.nodes) return wrong("cluster.server_nodes", "fewer than nodes");
  if (s.plan.records.most < s.plan.records.preloaded)
    return wrong("cluster.most_keys", "at least as many as keys");
  if (auto records = workloads::Records::make(s.plan.records); !records)
    return fail(ErrorCode::invalid_argument, "cluster." + records.error().message);
  return {};
}

Result<> check_load(const FuzzScenario& s) {
  const workloads::LoadConfig& l = s.plan.load;
  if (auto mixed = workloads::check(l.mix); !mixed)
    return fail(ErrorCode::invalid_argument, "load.mix: " + mixed.error().message);
  if (!l.script && (l.operations > 0) == (l.duration > 0))
    return wrong("load", "exactly one of operations and duration_ns above 0");
  if (l.read_only > s.plan.records.preloaded) return wrong("load.read_only", "at most the number of keys");
  if (l.readers > s.plan.deploy.client_workers)
    return wrong("load.readers", "at most the client workers of a node");
  const auto is_record = [&](std::uint64_t record) { return record < s.plan.records.most; };
  if (l.swept && !std::ranges::all_of(*l.swept, is_record))
    return wrong("load.swept", "records below most_keys");
  if (!l.script) return {};
  std::set<std::tuple<fabric::NodeId, std::uint16_t, std::uint32_t, std::uint32_t>> seen;
  for (const workloads::ScriptedClient& c : *l.script) {
    const kv::DeployConfig& d = s.plan.deploy;
    if (c.node >= d.nodes || !d.drives(c.node) || c.worker >= d.client_workers || c.slot >= d.window)
      return wrong("load.script.clients", "nodes, workers and slots that the cluster has clients on");
    if (!seen.emplace(c.node, c.worker, c.slot, c.incarnation).second)
      return wrong("load.script.clients", "each client once");
    if (!std::ranges::all_of(c.operations, is_record, &workloads::ScriptedOperation::record))
      return wrong("load.script.clients", "records below most_keys");
  }
  return {};
}

Result<> check_failures(const FuzzScenario& s) {
  const kv::DeployConfig& d = s.plan.deploy;
  const kv::ClientId& keeper = s.failures.keeper;
  if (!s.failures.has_schedule) return {};
  if (keeper.node >= d.nodes || !d.drives(keeper.node) || keeper.worker >= d.client_workers)
    return wrong("failures.keeper", "a client worker of the cluster");
  const std::vector<ScheduledFault>& all = s.sim.faults.schedule;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string key = fmt::format("failures.schedule[{}]", i);
    if (all[i].node >= d.nodes) return wrong(key + ".node", "a node of the cluster");
    if (all[i].kind == Kind::one_way && (all[i].peer >= d.nodes || all[i].peer == all[i].node))
      return wrong(key + ".peer", "another node of the cluster");
    if (all[i].kind == Kind::cut && all[i].span == 0) return wrong(key + ".span_ns", "more than 0");
    if (!can_fail(s, i))
      return wrong(key, "a failure that leaves the keeper alive, of what has not died before");
  }
  return {};
}

}  // namespace

Result<> check_scenario(const FuzzScenario& s) {
  LOCH_TRY(check_cluster(s));
  LOCH_TRY(check_load(s));
  return check_failures(s);
}

}  // namespace loch::fuzz
