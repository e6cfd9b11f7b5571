// Deploys a store on a fabric, runs the load driver, and merges the counts of all processes.
#include "workloads/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "common/measure/whole_number.h"

namespace loch::workloads {
namespace {

using nlohmann::json;

// The results of one process, sent to the process that reports for all.
struct Share {
  double window_s = 0;
  std::uint64_t outstanding = 0, inserts_refused = 0;
  std::string end;
  // Counters of every node. The counters of a node of another process contain only this process's own
  // contribution.
  std::vector<measure::NodePart> nodes;
  std::map<std::string, double> protocol_counters, fabric_counters;
  std::optional<std::map<std::string, std::uint64_t>> scrubbed;
  std::vector<std::string> notes;  // notes from the store, and notes about repairs that did not complete
  std::vector<std::uint32_t> declared_lost;
  std::optional<measure::Timeline> timeline;
  std::optional<ClockReport> clocks;
};

json to_json(const check::ClockSample& sample) {
  return {sample.at, sample.offset, sample.error, sample.round_trip};
}

check::ClockSample sample_from(const json& in) {
  // The times in a comparison of clocks (sample) are limited to 2^60 ns, so that sums and differences do not
  // overflow.
  constexpr Nanos most = Nanos{1} << 60;
  const auto number = [&](std::size_t i) {
    const Nanos value = in.at(i).get<Nanos>();
    return std::clamp(value, -most, most);
  };
  return {number(0), number(1), std::max<Nanos>(0, number(2)), std::max<Nanos>(0, number(3))};
}

json to_json(const ClockReport& clocks) {
  json out = {{"reference", clocks.reference},
              {"control_error", clocks.control_error},
              {"is_one_clock", clocks.is_one_clock},
              {"samples", json::array()},
              {"told", json::array()}};
  for (const auto& [rank, samples] : clocks.samples) {
    json list = json::array();
    for (const check::ClockSample& sample : samples) list.push_back(to_json(sample));
    out["samples"].push_back({rank, std::move(list)});
  }
  for (const auto& [rank, sample] : clocks.told) out["told"].push_back({rank, to_json(sample)});
  return out;
}

ClockReport clocks_from(const json& in) {
  ClockReport out;
  out.reference = measure::whole<std::uint16_t>(in.at("reference"));
  out.control_error = in.at("control_error");
  out.is_one_clock = in.at("is_one_clock");
  for (const json& each : in.at("samples")) {
    std::vector<check::ClockSample>& list = out.samples[measure::whole<std::uint16_t>(each.at(0))];
    for (const json& sample : each.at(1)) list.push_back(sample_from(sample));
  }
  for (const json& each : in.at("told"))
    out.told[measure::whole<std::uint16_t>(each.at(0))] = sample_from(each.at(1));
  return out;
}

std::optional<ClockReport> clocks_of(const fabric::Fabric& fabric, const Driver& driver) {
  const ClockExchange* const clocks = driver.clocks();
  if (clocks == nullptr) return std::nullopt;
  ClockReport out{.reference = clocks->reference(),
                  .samples = {},
                  .told = {},
                  .control_error = fabric.clock_error(),
                  .is_one_clock = fabric.has_one_clock()};
  if (!clocks->is_reference()) out.samples[fabric.rank()] = clocks->samples();
  for (const auto& [node, sample] : clocks->told()) out.told[node] = sample;
  return out;
}

void merge_clocks(const std::optional<ClockReport>& from, std::optional<ClockReport>& into) {
  if (!from) return;
  if (!into) into.emplace().reference = from->reference;
  into->samples.insert(from->samples.begin(), from->samples.end());
  into->told.insert(from->told.begin(), from->told.end());
  into->control_error = std::max(into->control_error, from->control_error);
  into->is_one_clock = from->is_one_clock;
}

json to_json(const Share& share) {
  json out = {{"window_s", share.window_s},
              {"outstanding", share.outstanding},
              {"inserts_refused", share.inserts_refused},
              {"end", share.end},
              {"nodes", json::array()},
              {"protocol_counters", share.protocol_counters},
              {"fabric_counters", share.fabric_counters},
              {"scrubbed", nullptr},
              {"notes", share.notes},
              {"declared_lost", share.declared_lost},
              {"timeline", nullptr},
              {"clocks", nullptr}};
  if (share.clocks) out["clocks"] = to_json(*share.clocks);
  if (share.timeline) out["timeline"] = measure::to_json(*share.timeline);
  for (const measure::NodePart& part : share.nodes) out["nodes"].push_back(measure::to_json(part));
  if (share.scrubbed) out["scrubbed"] = *share.scrubbed;
  return out;
}

Result<Share> share_from(const std::string& text) {
  try {
    const json in = json::parse(text);
    Share share;
    share.window_s = in.at("window_s");
    share.outstanding = in.at("outstanding");
    share.inserts_refused = in.at("inserts_refused");
    share.end = in.at("end");
    share.protocol_counters = in.at("protocol_counters").get<std::map<std::string, double>>();
    share.fabric_counters = in.at("fabric_counters").get<std::map<std::string, double>>();
    share.notes = in.at("notes").get<std::vector<std::string>>();
    for (const json& node : in.at("declared_lost"))
      share.declared_lost.push_back(measure::whole<std::uint16_t>(node));
    if (!in.at("timeline").is_null()) {
      LOCH_ASSIGN(share.timeline, measure::timeline_from_json(in.at("timeline")));
    }
    if (!in.at("clocks").is_null()) share.clocks = clocks_from(in.at("clocks"));
    if (!in.at("scrubbed").is_null())
      share.scrubbed = in.at("scrubbed").get<std::map<std::string, std::uint64_t>>();
    for (const json& each : in.at("nodes")) {
      LOCH_ASSIGN(measure::NodePart part, measure::node_part_from_json(each));
      share.nodes.push_back(std::move(part));
    }
    return share;
  } catch (const json::exception& error) {
    return fail(ErrorCode::corrupt, fmt::format("a process's report is unreadable: {}", error.what()));
  }
}

Share share_of(fabric::Fabric& fabric, const Deployed& deployed, fabric::RunEnd end,
               fabric::FabricReport& report) {
  Driver& driver = *deployed.driver;
  const kv::Store& store = *deployed.store;
  Share share;
  share.window_s = driver.window_s();
  share.outstanding = driver.outstanding();
  share.inserts_refused = driver.inserts_refused();
  share.end = name(end);
  share.protocol_counters = store.counters();
  if (const auto* further = dynamic_cast<const kv::FurtherLoads*>(&store); further != nullptr)
    deployed.counts.take_off_earlier(share.protocol_counters, further->levels());
  share.notes = store.notes();
  share.fabric_counters = report.counters;
  if (driver.did_scrub()) share.scrubbed = driver.scrubbed();
  share.declared_lost.assign(driver.declared_lost().begin(), driver.declared_lost().end());
  share.notes.insert(share.notes.end(), driver.stuck().begin(), driver.stuck().end());
  share.timeline = driver.timeline();
  share.clocks = clocks_of(fabric, driver);
  report.nodes.resize(fabric.nodes());
  for (std::uint32_t node = 0; node < fabric.nodes(); ++node) {
    measure::NodePart part;
    part.node = node;
    part.report = report.nodes[node];
    if (fabric.is_local(static_cast<fabric::NodeId>(node)))
      part.tally = driver.tally(static_cast<fabric::NodeId>(node));
    share.nodes.push_back(std::move(part));
  }
  return share;
}

void add(const std::map<std::string, double>& from, std::map<std::string, double>& to) {
  for (const auto& [key, value] : from) to[key] += value;
}

void merge(const Share& share, RunOutcome& into, std::uint64_t& inserts_refused) {
  into.window_s = std::max(into.window_s, share.window_s);
  into.outstanding += share.outstanding;
  inserts_refused += share.inserts_refused;
  add(share.protocol_counters, into.protocol_counters);
  add(share.fabric_counters, into.fabric_counters);
  if (share.scrubbed) into.scrubbed = share.scrubbed;
  merge_clocks(share.clocks, into.clocks);
  into.declared_lost.insert(into.declared_lost.end(), share.declared_lost.begin(), share.declared_lost.end());
  if (share.timeline && into.timeline && share.timeline->shape() == into.timeline->shape())
    into.timeline->merge(*share.timeline);
  else if (share.timeline)
    into.timeline = share.timeline;
  into.notes.insert(into.notes.end(), share.notes.begin(), share.notes.end());
  for (const measure::NodePart& part : share.nodes) {
    measure::NodePart& node = into.nodes.at(part.node);
    node.tally.merge(part.tally);
    fabric::NodeReport& to = node.report;
    to.tx_wire_bytes += part.report.tx_wire_bytes;
    to.rx_wire_bytes += part.report.rx_wire_bytes;
    to.cpu_busy += part.report.cpu_busy;
    to.client_busy += part.report.client_busy;
    to.server_busy += part.report.server_busy;
    to.power_w += part.report.power_w;
    to.is_lost = to.is_lost || part.report.is_lost;
    add(part.report.counters, to.counters);
  }
}

LoadConfig load_of(const RunPlan& plan, const KeyTable& keys) {
  LoadConfig load = plan.load;
  load.keys = keys;
  load.values_are_judged = plan.module->consistency(plan.options) != kv::Consistency::none;
  return load;
}

// Lays out the store's memory on every local node, connects the nodes and fills the store.
Result<> lay_out(fabric::Fabric& fabric, const RunPlan& plan, Deployed& deployed) {
  kv::Store& store = *deployed.store;
  for (std::uint32_t node = 0; node < fabric.nodes(); ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (fabric.is_local(id)) LOCH_TRY(store.setup_node(fabric, id));
  }
  LOCH_TRY(deployed.driver->add_workers(plan.pinning, plan.module->requirements(plan.options)));
  LOCH_TRY(fabric.exchange(plan.control_timeout));
  LOCH_TRY(store.connect(fabric));
  LOCH_TRY(store.preload(fabric, deployed.records));
  return fabric.barrier("preloaded", plan.control_timeout);
}

// Whether the fabric has what the protocol needs; an error names the ports of the devices, if there are any.
Result<> check_devices(const fabric::Requirements& needs, const fabric::Fabric& fabric) {
  fabric::Capabilities has = fabric.capabilities();
  std::set<std::string> ports;
  for (const fabric::NodeDevice& one : fabric.devices())
    ports.insert(fmt::format("{} port {}", one.can.device, one.port));
  if (!ports.empty()) has.device = fmt::format("{}", fmt::join(ports, ", "));
  return fabric::check(needs, has);
}

}  // namespace

bool serves_further_loads(const kv::Store& store) {
  const auto* further = dynamic_cast<const kv::FurtherLoads*>(&store);
  return further != nullptr && further->serves_further_loads();
}

std::string_view name(fabric::RunEnd end) {
  switch (end) {
    case fabric::RunEnd::finished:
      return "finished";
    case fabric::RunEnd::deadlock:
      return "deadlock";
    case fabric::RunEnd::deadline:
      return "deadline";
    case fabric::RunEnd::interrupted:
      return "interrupted";
  }
  return "?";
}

Result<kv::SlotUse> slots_of(const kv::Module& module, const kv::Options& options,
                             const Records::Shape& records) {
  const kv::DataSupport takes = module.data(options);
  const auto refuse = [&](std::string_view what) {
    if (records.table) {
      return fail(ErrorCode::unsupported,
                  fmt::format("trace-replay: {} stores {}s of one size, and the trace's differ; expected "
                              "--trace-sizes fixed",
                              module.name(), what));
    }
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {} stores {}s of one size; expected fixed",
                            fmt::format("{}-size-distribution", what), module.name(), what));
  };
  const bool keys_differ = records.has_key_sizes(), values_differ = records.has_value_sizes();
  if (keys_differ && takes.keys == kv::Sizing::one) return refuse("key");
  if (values_differ && takes.values == kv::Sizing::one) return refuse("value");
  return kv::SlotUse{.keys = keys_differ && takes.keys == kv::Sizing::slots,
                     .values = values_differ && takes.values == kv::Sizing::slots};
}

Result<std::unique_ptr<Deployed>> set_up(fabric::Fabric& fabric, const RunPlan& plan) {
  fabric::Requirements needs = plan.module->requirements(plan.options);
  if (plan.waives_order) needs.in_order_placement = false;
  LOCH_TRY(check_devices(needs, fabric));
  LOCH_ASSIGN(Records records, Records::make(plan.records));
  auto deployed = std::make_unique<Deployed>(
      Deployed{.records = std::move(records), .keys = {}, .store = nullptr, .driver = nullptr, .counts = {}});
  if (plan.load.computes_keys_ahead) deployed->keys = KeyTable(deployed->records);
  LOCH_ASSIGN(const kv::SlotUse use, slots_of(*plan.module, plan.options, plan.records));
  LOCH_ASSIGN(deployed->store, plan.module->deploy(kv::slotted(plan.deploy, use), plan.options, plan.mutant));
  if (use.any()) deployed->store = kv::make_slotted(std::move(deployed->store), plan.deploy, use);
  LOCH_ASSIGN(deployed->driver, Driver::make(load_of(plan, deployed->keys), plan.deploy, deployed->records,
                                             *deployed->store, fabric, plan.logs));
  LOCH_TRY(lay_out(fabric, plan, *deployed));
  return deployed;
}

Result<> change_load(fabric::Fabric& fabric, const RunPlan& plan, Deployed& deployed) {
  LOCH_ASSIGN(std::unique_ptr<Driver> driver,
              Driver::make(load_of(plan, deployed.keys), plan.deploy, deployed.records, *deployed.store,
                           fabric, plan.logs));
  LOCH_TRY(driver->take_workers(*deployed.driver));
  deployed.driver = std::move(driver);
  return {};
}

Result<RunOutcome> run_load(fabric::Fabric& fabric, const RunPlan& plan) {
  LOCH_ASSIGN(const std::unique_ptr<Deployed> deployed, set_up(fabric, plan));
  return run_deployed(fabric, plan, *deployed);
}

Result<RunOutcome> run_deployed(fabric::Fabric& fabric, const RunPlan& plan, Deployed& deployed) {
  const std::unique_ptr<kv::Store>& store = deployed.store;
  const std::unique_ptr<Driver>& driver = deployed.driver;
  deployed.counts.begin_load(store->counters());
  if (plan.on_start) plan.on_start(*driver);
  driver->start();
  const Result<fabric::RunEnd> ended = fabric.run();
  if (plan.on_end) plan.on_end(*driver);
  LOCH_ASSIGN(const fabric::RunEnd end, ended);

  fabric::FabricReport report = fabric.report();
  const Share mine = share_of(fabric, deployed, end, report);
  RunOutcome outcome;
  outcome.end = end;
  outcome.counters_late = driver->counters_late();
  outcome.sim = report.sim;
  outcome.transport = store->transport();
  outcome.stuck = driver->stuck();
  outcome.repaired = driver->repaired();
  if (plan.load.final_sweep && end == fabric::RunEnd::finished)
    outcome.unsound = store->audit(driver->void_nodes());
  for (std::uint32_t node = 0; node < fabric.nodes(); ++node)
    outcome.nodes.push_back({.node = node, .tally = {}, .report = {}});
  std::uint64_t inserts_refused = 0;
  merge(mine, outcome, inserts_refused);
  if (fabric.ranks() > 1) {
    LOCH_ASSIGN(const std::vector<std::string> texts,
                fabric.gather(to_json(mine).dump(), plan.control_timeout));
    outcome.is_joint = !texts.empty();
    for (std::uint32_t rank = 0; rank < texts.size(); ++rank) {
      if (rank == fabric.rank()) continue;
      if (texts[rank].empty()) {
        outcome.notes.push_back(
            fmt::format("process {} died; what its clients counted is lost with it", rank));
        if (outcome.timeline) driver->add_lost(static_cast<fabric::NodeId>(rank), *outcome.timeline);
        continue;
      }
      LOCH_ASSIGN(const Share theirs, share_from(texts[rank]));
      merge(theirs, outcome, inserts_refused);
    }
  }
  // Updates the report: a process that died before the results were gathered is known to be lost now.
  report = fabric.report();
  report.nodes.resize(fabric.nodes());
  for (std::uint32_t node = 0; node < fabric.nodes(); ++node) {
    outcome.nodes[node].report.is_lost |= report.nodes[node].is_lost;
    if (outcome.nodes[node].report.is_lost) outcome.lost_nodes.push_back(node);
  }
  outcome.is_fit_for_more = serves_further_loads(*store) && end == fabric::RunEnd::finished &&
                            outcome.lost_nodes.empty() && !driver->had_trouble() &&
                            driver->outstanding() == 0;
  if (inserts_refused > 0) {
    outcome.notes.push_back(fmt::format("{} inserts became updates: the table was made for {} keys",
                                        inserts_refused, plan.records.most));
  }
  return outcome;
}

}  // namespace loch::workloads
