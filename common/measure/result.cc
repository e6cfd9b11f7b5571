// Writes the counts of one measured run as the result document of schema 1.
#include "common/measure/result.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/process_memory.h"
#include "common/base/version.h"
#include "common/fabric/rails.h"
#include "common/measure/provenance.h"
#include "common/measure/whole_number.h"

namespace loch::measure {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

double ratio(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}

ordered_json latency_json(const Histogram& h) {
  const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1000.0; };
  ordered_json out;
  out["mean"] = h.mean() / 1000.0;
  out["min"] = us(h.min());
  out["p50"] = us(h.percentile(50));
  out["p90"] = us(h.percentile(90));
  out["p95"] = us(h.percentile(95));
  out["p99"] = us(h.percentile(99));
  out["p99_9"] = us(h.percentile(99.9));
  out["max"] = us(h.max());
  out["count"] = h.count();
  // pairs [upper bound of the bucket in us, count], from Histogram::coarse_buckets()
  ordered_json buckets = ordered_json::array();
  for (const auto& [value, n] : h.coarse_buckets()) buckets.push_back({us(value), n});
  out["histogram"] = std::move(buckets);
  return out;
}

// Pairs [count, share of the operations that have at most this count].
ordered_json cdf_json(const CountDistribution& d) {
  const auto counts = d.counts();
  std::uint64_t total = 0, seen = 0;
  for (const auto& [value, n] : counts) total += n;
  ordered_json out = ordered_json::array();
  for (const auto& [value, n] : counts) {
    seen += n;
    out.push_back({value, ratio(seen, total)});
  }
  return out;
}

ordered_json per_operation(const KindTally& kind) {
  const RequestTotals& r = kind.requests;
  const std::uint64_t n = kind.total();
  ordered_json out;
  out["read"] = ratio(r.read, n);
  out["write"] = ratio(r.write, n);
  out["cas"] = ratio(r.cas, n);
  out["faa"] = ratio(r.faa, n);
  out["send"] = ratio(r.send, n);
  out["recv"] = ratio(r.recv, n);
  out["total"] = ratio(r.read + r.write + r.cas + r.faa + r.send, n);
  out["index_read"] = ratio(r.index_read, n);
  out["index_cas"] = ratio(r.index_cas, n);
  out["cache_hits"] = ratio(r.cache_hits, n);
  out["local_accesses"] = ratio(r.local_accesses, n);
  out["cdf"] = {{"total", cdf_json(r.requests)},
                {"read", cdf_json(r.reads)},
                {"index_read", cdf_json(r.index_reads)},
                {"cas", cdf_json(r.swaps)},
                {"payload_bytes", cdf_json(r.payload)}};
  return out;
}

// The kinds of operation that a result lists: GET, PUT and DELETE always, INSERT if there were any.
std::vector<OpKind> kinds_of(const Tally& t) {
  std::vector<OpKind> kinds = {OpKind::get, OpKind::put, OpKind::remove};
  if (t.of(OpKind::insert_if_absent).total() > 0) kinds.push_back(OpKind::insert_if_absent);
  return kinds;
}

ordered_json operations_json(const Tally& t) {
  std::array<std::uint64_t, op_statuses> by{};
  for (const KindTally& kind : t.kinds) {
    for (std::size_t o = 0; o < op_statuses; ++o) by[o] += kind.by_status[o];
  }
  const auto of = [&](OpStatus o) { return by[static_cast<std::size_t>(o)]; };
  ordered_json out;
  out["total"] = t.total();
  out["get"] = t.of(OpKind::get).total();
  out["put"] = t.of(OpKind::put).total();
  out["delete"] = t.of(OpKind::remove).total();
  const bool inserts = t.of(OpKind::insert_if_absent).total() > 0;
  if (inserts) out["insert_if_absent"] = t.of(OpKind::insert_if_absent).total();
  out["ok"] = of(OpStatus::ok);
  out["not_found"] = of(OpStatus::not_found);
  if (inserts) out["exists"] = of(OpStatus::exists);
  out["conflict"] = of(OpStatus::conflict);
  out["timeout"] = of(OpStatus::timeout);
  out["error"] = of(OpStatus::error) + of(OpStatus::table_full);
  out["table_full"] = of(OpStatus::table_full);
  out["retries"] = t.retries;
  out["verified"] = t.verified;
  out["corrupt"] = t.corrupt;
  out["outside_window"] = t.unmeasured;
  return out;
}

ordered_json latencies_json(const Tally& t) {
  Histogram all;
  for (const KindTally& kind : t.kinds) all.merge(kind.latency_ns);
  ordered_json out;
  out["all"] = latency_json(all);
  for (const OpKind kind : kinds_of(t)) {
    out[std::string(name(kind))] = latency_json(t.of(kind).latency_ns);
  }
  return out;
}

ordered_json verbs_json(const Tally& t) {
  RequestTotals all;
  for (const KindTally& kind : t.kinds) all.merge(kind.requests);
  ordered_json out;
  out["read"] = all.read;
  out["write"] = all.write;
  out["cas"] = all.cas;
  out["faa"] = all.faa;
  out["send"] = all.send;
  out["recv"] = all.recv;
  for (const OpKind kind : kinds_of(t)) {
    out[fmt::format("per_{}", name(kind))] = per_operation(t.of(kind));
  }
  return out;
}

ordered_json wire_json(const Tally& t, const std::vector<NodePart>& nodes) {
  std::uint64_t total = 0;
  ordered_json tx = ordered_json::array(), rx = ordered_json::array();
  for (const NodePart& node : nodes) {
    total += node.report.tx_wire_bytes;
    tx.push_back(node.report.tx_wire_bytes);
    rx.push_back(node.report.rx_wire_bytes);
  }
  ordered_json out;
  out["total"] = total;
  for (const OpKind kind : kinds_of(t)) {
    const KindTally& k = t.of(kind);
    out[fmt::format("per_{}", name(kind))] = ratio(k.requests.wire_bytes, k.total());
    out[fmt::format("payload_per_{}", name(kind))] = ratio(k.requests.payload_bytes, k.total());
  }
  out["per_node_tx"] = std::move(tx);
  out["per_node_rx"] = std::move(rx);
  return out;
}

ordered_json cpu_json(const std::vector<NodePart>& nodes) {
  // client_busy and server_busy are means over the nodes that have such workers: with --server-nodes, some
  // nodes have no clients and the others no servers.
  double busy = 0, client = 0, server = 0;
  std::size_t with_clients = 0, with_servers = 0;
  for (const NodePart& node : nodes) {
    busy += node.report.cpu_busy;
    client += node.report.client_busy;
    server += node.report.server_busy;
    with_clients += node.report.client_busy > 0 ? 1 : 0;
    with_servers += node.report.server_busy > 0 ? 1 : 0;
  }
  const auto mean = [](double sum, std::size_t n) { return n == 0 ? 0 : sum / static_cast<double>(n); };
  return {{"busy_fraction", mean(busy, nodes.size())},
          {"client_busy", mean(client, with_clients)},
          {"server_busy", mean(server, with_servers)}};
}

ordered_json power_json(const std::vector<NodePart>& nodes) {
  double sum = 0;
  ordered_json each = ordered_json::array();
  for (const NodePart& node : nodes) {
    sum += node.report.power_w;
    each.push_back(node.report.power_w);
  }
  return {{"mean", nodes.empty() ? 0 : sum / static_cast<double>(nodes.size())},
          {"per_node", std::move(each)}};
}

// Beginning and end of the measurement window in wall-clock time, by which samples of other instruments
// (power meters) are matched with the run.
ordered_json window_json(const PointResult& point) {
  if (!point.window_began_unix_ns) return nullptr;
  const auto span = static_cast<std::int64_t>(point.duration_s * 1e9);
  return {{"from_unix_ns", *point.window_began_unix_ns}, {"to_unix_ns", *point.window_began_unix_ns + span}};
}

ordered_json nodes_json(const PointResult& point) {
  ordered_json out = ordered_json::array();
  for (const NodePart& node : point.nodes) {
    ordered_json one;
    one["node"] = node.node;
    one["lost"] = node.report.is_lost;
    one["throughput_ops_s"] =
        point.duration_s > 0 ? static_cast<double>(node.tally.completed()) / point.duration_s : 0;
    one["operations"] = operations_json(node.tally);
    Histogram all;
    for (const KindTally& kind : node.tally.kinds) all.merge(kind.latency_ns);
    one["latency_us_mean"] = all.mean() / 1000.0;
    one["tx_wire_bytes"] = node.report.tx_wire_bytes;
    one["rx_wire_bytes"] = node.report.rx_wire_bytes;
    one["cpu_busy_fraction"] = node.report.cpu_busy;
    one["power_w"] = node.report.power_w;
    one["counters"] = node.report.counters;
    out.push_back(std::move(one));
  }
  return out;
}

ordered_json network_json(const std::optional<fabric::NetworkState>& network) {
  if (!network) return nullptr;
  ordered_json symptoms = ordered_json::array();
  for (const fabric::Symptom& symptom : network->symptoms) {
    symptoms.push_back(
        {{"node", symptom.node},
         {"host", symptom.host},
         {"device", symptom.device.empty() ? ordered_json(nullptr) : ordered_json(symptom.device)},
         {"counter", symptom.counter},
         {"meaning", symptom.meaning},
         {"kind", fabric::name(symptom.kind)},
         {"count", symptom.change.count},
         {"is_least", symptom.change.is_least}});
  }
  return {{"verdict", network->verdict}, {"is_sick", network->is_sick}, {"symptoms", std::move(symptoms)}};
}

ordered_json sim_json(const std::optional<fabric::SimReport>& sim) {
  if (!sim) return nullptr;
  return {{"events", sim->events},
          {"virtual_s", sim->virtual_s},
          {"wall_s", sim->wall_s},
          {"events_per_s", sim->wall_s > 0 ? static_cast<double>(sim->events) / sim->wall_s : 0},
          {"trace_hash", fmt::format("{:016x}", sim->trace_hash)},
          {"request_allocations", sim->request_allocations},
          {"peak_memory_bytes", peak_memory_bytes()}};
}

ordered_json sizes_json(const SizeTally& sizes, const ordered_json& space) {
  const auto bytes = [](const Histogram& h) {
    return ordered_json{{"count", h.count()},          {"mean", h.mean()},        {"min", h.min()},
                        {"p1", h.percentile(1)},       {"p25", h.percentile(25)}, {"p50", h.percentile(50)},
                        {"p75", h.percentile(75)},     {"p90", h.percentile(90)}, {"p99", h.percentile(99)},
                        {"p99_9", h.percentile(99.9)}, {"max", h.max()}};
  };
  return {{"key_bytes", bytes(sizes.key_bytes)}, {"value_bytes", bytes(sizes.value_bytes)}, {"space", space}};
}

ordered_json multi_get_json(const PointResult& point, const BatchTally& batches) {
  const double seconds = point.duration_s;
  return {{"keys", point.multi_get},
          {"batches", batches.total},
          {"batches_per_s", seconds > 0 ? static_cast<double>(batches.latency_ns.count()) / seconds : 0},
          {"latency_us", latency_json(batches.latency_ns)}};
}

}  // namespace

ordered_json to_json(const fabric::Capabilities& c) {
  constexpr std::array<const char*, 3> scopes = {"none", "nic", "global"};
  constexpr std::array<const char*, 3> links = {"infiniband", "roce_v1", "roce_v2"};
  return {{"fabric", c.fabric},
          {"device", c.device},
          {"rc", c.rc},
          {"uc", c.uc},
          {"ud", c.ud},
          {"receives_connected", c.receives_connected},
          {"atomic_scope", scopes[static_cast<std::size_t>(c.atomic_scope)]},
          {"untorn_bytes", c.untorn_bytes},
          {"in_order_placement", c.in_order_placement},
          {"in_order_reads", c.in_order_reads},
          {"order_is_assumed", c.order_is_assumed},
          {"write_then_read", fabric::name(c.write_then_read)},
          {"write_then_atomic", fabric::name(c.write_then_atomic)},
          {"target_cpu", c.target_cpu},
          {"max_rd_atomic", c.max_rd_atomic},
          {"request_lifetime_us", static_cast<double>(c.request_lifetime) / 1e3},
          {"max_inline_bytes", c.max_inline_bytes},
          {"mtu_bytes", c.mtu_bytes},
          {"link", links[static_cast<std::size_t>(c.link)]},
          {"send_queue_depth", c.send_queue_depth},
          {"recv_queue_depth", c.recv_queue_depth},
          {"datagram_queue_pairs", c.datagram_queue_pairs},
          {"simulated", c.simulated}};
}

ordered_json to_json(const fabric::NodeDevice& device) {
  return {{"node", device.node},
          {"host", device.host},
          {"port", device.port},
          {"gid", device.gid},
          {"network", device.network},
          {"gigabits_s", device.gigabits},
          {"pkey", device.pkey},
          {"service_level", device.service_level},
          {"traffic_class", device.traffic_class},
          {"flow_label", device.flow_label},
          {"mtu_bytes", device.can.mtu_bytes},
          {"firmware", device.firmware},
          {"driver", device.driver},
          {"numa_node", device.numa_node < 0 ? ordered_json(nullptr) : ordered_json(device.numa_node)},
          {"can", to_json(device.can)}};
}

std::optional<fabric::NetworkState> judge_network(const std::vector<fabric::NodeDevice>& devices,
                                                  const std::vector<NodePart>& nodes) {
  if (devices.empty()) return std::nullopt;
  const std::vector<std::uint32_t> rails = fabric::rails_of(devices);
  std::vector<fabric::PortReport> ports;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const fabric::NodeDevice& device = devices[i];
    fabric::PortReport port{.node = device.node,
                            .host = device.host,
                            .port = fmt::format("{}/{} {}", device.can.device, device.port, device.gid),
                            .device = "",
                            .is_lost = false,
                            .health = {}};
    if (fabric::count_rails(devices) > 1) port.device = device.can.device;
    const auto part = std::ranges::find(nodes, device.node, &NodePart::node);
    if (part != nodes.end()) {
      port.is_lost = part->report.is_lost;
      port.health = fabric::health_from(part->report.counters, rails[i]);
    }
    ports.push_back(std::move(port));
  }
  return fabric::judge(ports);
}

ordered_json to_json(const PointResult& point) {
  Tally all;
  for (const NodePart& node : point.nodes) all.merge(node.tally);
  const std::uint64_t moved = all.of(OpKind::get).by_status[0] + all.of(OpKind::put).by_status[0] +
                              all.of(OpKind::insert_if_absent).by_status[0];
  const double seconds = point.duration_s;
  ordered_json out;
  out["schema"] = schema_version;
  out["loch"] = {{"version", version()}, {"commit", build_commit()}, {"dirty", build_is_dirty()}};
  out["protocol"] = point.protocol;
  out["fabric"] = point.fabric;
  out["hardware"] = point.hardware.empty() ? ordered_json(nullptr) : ordered_json(point.hardware);
  out["seed"] = point.seed;
  out["repeat"] = point.repeat;
  out["config"] = point.config;
  out["capabilities"] = to_json(point.capabilities);
  out["devices"] = ordered_json::array();
  const std::vector<std::uint32_t> rails = fabric::rails_of(point.devices);
  for (std::size_t i = 0; i < point.devices.size(); ++i) {
    out["devices"].push_back(to_json(point.devices[i]));
    out["devices"].back()["rail"] = rails[i];
  }
  out["network"] = network_json(point.network);
  out["transport"] = point.transport.empty() ? "verbs" : point.transport;
  out["duration_s"] = seconds;
  out["throughput_ops_s"] = seconds > 0 ? static_cast<double>(all.completed()) / seconds : 0;
  const bool has_sizes = !point.sizes.is_null();
  const double useful =
      has_sizes ? all.sizes.value_bytes.sum() : static_cast<double>(moved) * point.value_size;
  out["goodput_bytes_s"] = seconds > 0 ? useful / seconds : 0;
  out["sizes"] = has_sizes ? sizes_json(all.sizes, point.sizes) : ordered_json(nullptr);
  out["operations"] = operations_json(all);
  out["latency_us"] = latencies_json(all);
  if (point.multi_get > 1) out["multi_get"] = multi_get_json(point, all.batches);
  out["verbs"] = verbs_json(all);
  out["wire_bytes"] = wire_json(all, point.nodes);
  out["cpu"] = cpu_json(point.nodes);
  out["power_w"] = power_json(point.nodes);
  out["placement"] = point.placement;
  out["hogs"] = point.background_workers;
  out["window"] = window_json(point);
  out["timeline"] = point.timeline ? bins_json(*point.timeline) : ordered_json(nullptr);
  out["events"] = point.timeline ? events_json(*point.timeline) : ordered_json(nullptr);
  out["probed_keys"] = point.probed_keys;
  out["nodes"] = nodes_json(point);
  out["run_end"] = point.run_end;
  out["lost_nodes"] = point.lost_nodes;
  out["planned_losses"] = point.planned_losses;
  out["declared_lost"] = point.declared_lost;
  out["protocol_counters"] = point.protocol_counters;
  out["fabric_counters"] = point.fabric_counters;
  out["trace_replay"] = point.trace_replay;
  out["scrub"] = point.scrub;
  out["check"] = point.check;
  out["history"] = point.history;
  out["search"] = point.search;
  out["caveats"] = point.caveats;
  if (!point.departure.empty()) out["departure"] = point.departure;
  out["notes"] = point.notes;
  out["provenance"] = provenance(point.argv);
  out["sim"] = sim_json(point.sim);
  return out;
}

json to_json(const NodePart& part) {
  const fabric::NodeReport& r = part.report;
  return {{"node", part.node},
          {"tally", to_json(part.tally)},
          {"tx_wire_bytes", r.tx_wire_bytes},
          {"rx_wire_bytes", r.rx_wire_bytes},
          {"cpu_busy", r.cpu_busy},
          {"client_busy", r.client_busy},
          {"server_busy", r.server_busy},
          {"power_w", r.power_w},
          {"is_lost", r.is_lost},
          {"counters", r.counters}};
}

Result<NodePart> node_part_from_json(const json& in) {
  try {
    NodePart part;
    part.node = whole<decltype(part.node)>(in.at("node"));
    LOCH_ASSIGN(part.tally, tally_from_json(in.at("tally")));
    part.report.tx_wire_bytes = whole<std::uint64_t>(in.at("tx_wire_bytes"));
    part.report.rx_wire_bytes = whole<std::uint64_t>(in.at("rx_wire_bytes"));
    part.report.cpu_busy = in.at("cpu_busy");
    part.report.client_busy = in.at("client_busy");
    part.report.server_busy = in.at("server_busy");
    part.report.power_w = in.at("power_w");
    part.report.is_lost = in.at("is_lost");
    part.report.counters = in.at("counters").get<std::map<std::string, double>>();
    return part;
  } catch (const json::exception& error) {
    return fail(ErrorCode::corrupt, fmt::format("a process's report is unreadable: {}", error.what()));
  }
}

namespace {

std::string replay_line(const ordered_json& replay) {
  const auto& lag = replay.at("lag_us");
  const std::string when =
      lag.is_null()
          ? "as fast as the clients took them"
          : fmt::format("at {:g} times its rate, begun {:.2f} us late in the mean (p99 {:.2f}, max {:.2f})",
                        replay.at("speed").get<double>(), lag.at("mean").get<double>(),
                        lag.at("p99").get<double>(), lag.at("max").get<double>());
  return fmt::format("  trace {} ({}), {} operations on {} keys, {}\n", replay.at("file").get<std::string>(),
                     replay.at("format").get<std::string>(), replay.at("operations").get<std::uint64_t>(),
                     replay.at("keys").get<std::uint64_t>(), when);
}

}  // namespace

std::string summary(const ordered_json& r) {
  const auto line = [&](const char* kind) {
    const auto& l = r.at("latency_us").at(kind);
    if (l.at("count").get<std::uint64_t>() == 0) return std::string();
    return fmt::format("  {:<6} {:>10} ops   mean {:8.2f} us   p50 {:8.2f}   p99 {:8.2f}   max {:9.2f}\n",
                       kind, l.at("count").get<std::uint64_t>(), l.at("mean").get<double>(),
                       l.at("p50").get<double>(), l.at("p99").get<double>(), l.at("max").get<double>());
  };
  const auto& ops = r.at("operations");
  const auto transport = r.value("transport", "verbs");
  std::string text = fmt::format(
      "{} on {}{}: {:.0f} operations/s, {:.1f} MB/s goodput over {:g} s\n",
      r.at("protocol").get<std::string>(), r.at("fabric").get<std::string>(),
      transport == "verbs" ? "" : fmt::format(" ({})", transport), r.at("throughput_ops_s").get<double>(),
      r.at("goodput_bytes_s").get<double>() / 1e6, r.at("duration_s").get<double>());
  text += line("get") + line("put") + line("delete");
  if (const auto many = r.value("multi_get", ordered_json(nullptr)); !many.is_null()) {
    const auto& l = many.at("latency_us");
    text +=
        fmt::format("  {:<6} {:>10} batches of {} keys   mean {:8.2f} us   p50 {:8.2f}   p99 {:8.2f}\n",
                    "multi", many.at("batches").get<std::uint64_t>(), many.at("keys").get<std::uint32_t>(),
                    l.at("mean").get<double>(), l.at("p50").get<double>(), l.at("p99").get<double>());
  }
  text += fmt::format(
      "  ok {}  not_found {}  conflict {}  timeout {}  error {}  retries {}  verified {}  corrupt {}\n",
      ops.at("ok").get<std::uint64_t>(), ops.at("not_found").get<std::uint64_t>(),
      ops.at("conflict").get<std::uint64_t>(), ops.at("timeout").get<std::uint64_t>(),
      ops.at("error").get<std::uint64_t>(), ops.at("retries").get<std::uint64_t>(),
      ops.at("verified").get<std::uint64_t>(), ops.at("corrupt").get<std::uint64_t>());
  if (const auto sizes = r.value("sizes", ordered_json(nullptr)); !sizes.is_null()) {
    const auto& k = sizes.at("key_bytes");
    const auto& v = sizes.at("value_bytes");
    text += fmt::format(
        "  keys of {:.1f} bytes (p99 {}), values of {:.1f} (p50 {}, p99 {}); records fill {:.0f} % of the "
        "largest\n",
        k.at("mean").get<double>(), k.at("p99").get<std::int64_t>(), v.at("mean").get<double>(),
        v.at("p50").get<std::int64_t>(), v.at("p99").get<std::int64_t>(),
        100 * sizes.at("space").at("used_share").get<double>());
  }
  if (const auto network = r.value("network", ordered_json(nullptr)); !network.is_null())
    text += fmt::format("  network: {}\n", network.at("verdict").get<std::string>());
  if (const auto replay = r.value("trace_replay", ordered_json(nullptr)); !replay.is_null())
    text += replay_line(replay);
  if (!r.at("sim").is_null()) {
    const auto& s = r.at("sim");
    text += fmt::format("  simulated {:g} s in {:.2f} s, {:.1f} M events/s, trace hash {}\n",
                        s.at("virtual_s").get<double>(), s.at("wall_s").get<double>(),
                        s.at("events_per_s").get<double>() / 1e6, s.at("trace_hash").get<std::string>());
  }
  return text;
}

}  // namespace loch::measure
