// Compares readings of a port's counters, and puts the symptoms of all ports into one line.
#include "common/fabric/health.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace loch::fabric {
namespace {

// What a counter counts: the kinds of events that the verdict on the network tells apart.
enum class Meaning : std::uint8_t {
  retransmission,
  adaptive,
  out_of_order,
  sequence_nak,
  duplicate,
  gave_up,
  not_ready,
  no_buffer,
  dropped,
  damaged,
  link_down,
  buffer,
  send_error,
  port_failed,
  queue_failed,
  path_failed,
  device_failed,
  marked,
  notified,
  slowed,
  waited,
};

struct Words {
  std::string_view one, many;
  SymptomKind kind;
};

constexpr Words words[] = {
    {"retransmission", "retransmissions", SymptomKind::fault},
    {"adaptive retransmission", "adaptive retransmissions", SymptomKind::fault},
    {"request out of order", "requests out of order", SymptomKind::fault},
    {"NAK for a sequence error", "NAKs for sequence errors", SymptomKind::fault},
    {"duplicate request", "duplicate requests", SymptomKind::fault},
    {"request given up after all retries", "requests given up after all retries", SymptomKind::fault},
    {"receiver that was not ready", "receivers that were not ready", SymptomKind::fault},
    {"message without a receive buffer", "messages without a receive buffer", SymptomKind::fault},
    {"dropped packet", "dropped packets", SymptomKind::fault},
    {"damaged packet or symbol", "damaged packets or symbols", SymptomKind::fault},
    {"time that the link was down", "times that the link was down", SymptomKind::fault},
    {"overrun buffer", "overrun buffers", SymptomKind::fault},
    {"packet that could not be sent", "packets that could not be sent", SymptomKind::fault},
    {"failure of the port", "failures of the port", SymptomKind::fault},
    {"queue pair that failed", "queue pairs that failed", SymptomKind::fault},
    {"failed path migration", "failed path migrations", SymptomKind::fault},
    {"failure of the device", "failures of the device", SymptomKind::fault},
    {"packet marked by ECN", "packets marked by ECN", SymptomKind::congestion},
    {"congestion notification", "congestion notifications", SymptomKind::congestion},
    {"slow restart", "slow restarts", SymptomKind::congestion},
    {"tick of waiting for the link", "ticks of waiting for the link", SymptomKind::wait},
};

struct Known {
  std::string_view name;
  Meaning meaning;
  std::uint64_t stops_at = 0;  // the largest value, at which the counter stops; 0: it wraps
};

constexpr std::uint64_t bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }

// Names of drivers' counters: PortCounters of InfiniBand 1.3, 16.1.3.5 (with their widths), then those in
// Linux's drivers mlx5, bnxt_re (which has mlx5's names in its newer versions), mlx4, irdma, rxe and efa.
constexpr auto known = std::to_array<Known>({
    {"symbol_error", Meaning::damaged, bits(16)},
    {"link_error_recovery", Meaning::link_down, bits(8)},
    {"link_downed", Meaning::link_down, bits(8)},
    {"port_rcv_errors", Meaning::damaged, bits(16)},
    {"port_rcv_remote_physical_errors", Meaning::damaged, bits(16)},
    {"port_rcv_switch_relay_errors", Meaning::dropped, bits(16)},
    {"port_xmit_discards", Meaning::dropped, bits(16)},
    {"port_xmit_constraint_errors", Meaning::dropped, bits(8)},
    {"port_rcv_constraint_errors", Meaning::dropped, bits(8)},
    {"local_link_integrity_errors", Meaning::damaged, bits(4)},
    {"excessive_buffer_overrun_errors", Meaning::buffer, bits(4)},
    {"port_xmit_wait", Meaning::waited, bits(32)},
    // counters of mlx5's driver, and of bnxt_re's in its newer versions
    {"packet_seq_err", Meaning::retransmission},
    {"local_ack_timeout_err", Meaning::retransmission},
    {"implied_nak_seq_err", Meaning::retransmission},
    {"roce_adp_retrans", Meaning::adaptive},
    {"roce_adp_retrans_to", Meaning::adaptive},
    {"out_of_sequence", Meaning::out_of_order},
    {"duplicate_request", Meaning::duplicate},
    {"req_transport_retries_exceeded", Meaning::gave_up},
    {"req_rnr_retries_exceeded", Meaning::gave_up},
    {"rnr_nak_retry_err", Meaning::not_ready},
    {"out_of_buffer", Meaning::no_buffer},
    {"rx_icrc_encapsulated", Meaning::damaged},
    {"np_ecn_marked_roce_packets", Meaning::marked},
    {"np_cnp_sent", Meaning::notified},
    {"rp_cnp_handled", Meaning::notified},
    {"rp_cnp_ignored", Meaning::notified},
    {"roce_slow_restart", Meaning::slowed},
    {"roce_slow_restart_cnps", Meaning::slowed},
    {"roce_slow_restart_trans", Meaning::slowed},
    // counters of the driver bnxt_re in its older versions
    {"to_retransmits", Meaning::retransmission},
    {"to_retransmit", Meaning::retransmission},
    {"seq_err_naks_rcvd", Meaning::retransmission},
    {"missing_resp", Meaning::retransmission},
    {"max_retry_exceeded", Meaning::gave_up},
    {"rnr_naks_rcvd", Meaning::not_ready},
    {"dup_req", Meaning::duplicate},
    {"oos_drop_count", Meaning::out_of_order},
    {"res_oos_drop_count", Meaning::out_of_order},
    {"rx_out_of_buffer", Meaning::no_buffer},
    {"rx_roce_discards", Meaning::dropped},
    {"tx_roce_discards", Meaning::dropped},
    {"rx_roce_errors", Meaning::damaged},
    {"tx_roce_errors", Meaning::send_error},
    {"rx_ecn_marked_pkts", Meaning::marked},
    {"rx_cnp_pkts", Meaning::notified},
    {"tx_cnp_pkts", Meaning::notified},
    // counters of the driver mlx4, in whose names sq is the requester and rq the responder
    {"sq_num_to", Meaning::retransmission},
    {"sq_num_oos", Meaning::retransmission},
    {"rq_num_oos", Meaning::out_of_order},
    {"rq_num_dup", Meaning::duplicate},
    {"sq_num_tree", Meaning::gave_up},
    {"sq_num_rree", Meaning::gave_up},
    {"sq_num_rnr", Meaning::not_ready},
    {"rq_num_rnr", Meaning::no_buffer},
    {"rq_num_udsdprd", Meaning::no_buffer},
    // counters of the driver irdma
    {"tcpRetransSegs", Meaning::retransmission},
    {"RetransSegs", Meaning::retransmission},
    {"Nak Sequence Error", Meaning::sequence_nak},
    {"RNR received", Meaning::not_ready},
    {"RNR sent", Meaning::no_buffer},
    {"ip4InDiscards", Meaning::dropped},
    {"ip6InDiscards", Meaning::dropped},
    {"rxVlanErrors", Meaning::damaged},
    {"RxECNMrkd", Meaning::marked},
    {"cnpHandled", Meaning::notified},
    {"cnpIgnored", Meaning::notified},
    {"cnpSent", Meaning::notified},
    // counters of rxe, Linux's RoCE in software
    {"completer_retry_err", Meaning::retransmission},
    {"rcvd_seq_err", Meaning::sequence_nak},
    {"out_of_seq_request", Meaning::out_of_order},
    {"retry_exceeded_err", Meaning::gave_up},
    {"retry_rnr_exceeded_err", Meaning::gave_up},
    {"rcvd_rnr_err", Meaning::not_ready},
    {"send_rnr_err", Meaning::no_buffer},
    {"send_err", Meaning::send_error},
    // asynchronous events of libibverbs, which the fabric counts
    {"IBV_EVENT_PORT_ERR", Meaning::port_failed},
    {"IBV_EVENT_QP_FATAL", Meaning::queue_failed},
    {"IBV_EVENT_PATH_MIG_ERR", Meaning::path_failed},
    {"IBV_EVENT_DEVICE_FATAL", Meaning::device_failed},
    {"IBV_EVENT_CQ_ERR", Meaning::device_failed},
    {"IBV_EVENT_SRQ_ERR", Meaning::device_failed},
    {"IBV_EVENT_WQ_FATAL", Meaning::device_failed},
    // counters of efa, Amazon's driver
    {"retrans_pkts", Meaning::retransmission},
    {"rx_drops", Meaning::dropped},
});

const Known* find_known(std::string_view name) {
  const auto found = std::ranges::find(known, name, &Known::name);
  return found == known.end() ? nullptr : &*found;
}

bool is_of_transport(Meaning meaning) {
  return meaning == Meaning::retransmission || meaning == Meaning::out_of_order ||
         meaning == Meaning::sequence_nak;
}

CounterChange change_of(const Known& counter, std::uint64_t before, std::uint64_t after) {
  constexpr std::uint64_t range = std::uint64_t{1} << 32;
  if (counter.stops_at != 0) {
    const bool has_stopped = after >= counter.stops_at;
    return after < before ? CounterChange{after, true} : CounterChange{after - before, has_stopped};
  }
  if (after >= before) return {after - before, false};
  const bool has_wrapped = before < range && before >= range / 2 && after < range / 2;
  return has_wrapped ? CounterChange{after + range - before, false} : CounterChange{after, true};
}

constexpr std::string_view prefix = "port.", least_prefix = "port_least.", seen_key = "port_seen.transport",
                           vanished_key = "port_seen.vanished", count_key = "port_seen.counters";

// Converts a count that another process sent; values that are no count become 0.
std::uint64_t whole_count(double value) {
  constexpr double most = 9.2e18;
  return value > 0 && value < most ? static_cast<std::uint64_t>(value) : 0;
}

// The reason why a port cannot be judged; empty if it can.
std::string unseen(const PortReport& port) {
  if (port.is_lost) return "lost";
  if (port.health.has_vanished) return "the counters vanished during the run";
  if (port.health.counters == 0) return "no counters";
  return port.health.sees_transport ? "" : "no counters of retransmissions";
}

std::string label(const PortReport& port, std::span<const PortReport> all) {
  const auto others = std::ranges::count_if(all, [&](const PortReport& other) {
    return other.host == port.host && other.port != port.port && other.node != port.node;
  });
  std::string where = others == 0 && !port.host.empty() ? port.host : fmt::format("node {}", port.node);
  if (!port.device.empty()) where += fmt::format(" ({})", port.device);
  return where;
}

// One kind of event at one port: the sum of all counters of the port that count it.
struct Finding {
  Meaning meaning = Meaning::retransmission;
  std::string where;
  CounterChange change;
};

std::string text_of(const Finding& finding) {
  const Words& of = words[static_cast<std::size_t>(finding.meaning)];
  const auto [count, is_least] = finding.change;
  return fmt::format("{}{} {} on {}", is_least ? "at least " : "", count, count == 1 ? of.one : of.many,
                     finding.where);
}

// Lists the three largest findings of one kind of symptom, and says how many more there are.
std::string list_of(std::vector<Finding> findings, SymptomKind kind) {
  constexpr std::size_t most = 3;
  std::erase_if(findings, [&](const Finding& finding) {
    return words[static_cast<std::size_t>(finding.meaning)].kind != kind;
  });
  std::ranges::sort(findings, {}, [](const Finding& finding) {
    return std::tuple(~finding.change.count, finding.meaning, finding.where);
  });
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    if (texts.size() < most) texts.push_back(text_of(finding));
  }
  if (findings.size() > most) texts.push_back(fmt::format("{} more", findings.size() - most));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Symptom> symptoms_of(const PortReport& port) {
  std::vector<Symptom> symptoms;
  for (const auto& [counter, change] : port.health.changes) {
    const Known* found = find_known(counter);
    if (found == nullptr) continue;
    const Words& of = words[static_cast<std::size_t>(found->meaning)];
    symptoms.push_back({port.node, port.host, port.device, counter, std::string(of.many), of.kind, change});
  }
  std::ranges::sort(symptoms, {}, [](const Symptom& one) { return std::tuple(one.kind, one.counter); });
  return symptoms;
}

void add_findings(const PortReport& port, const std::string& where, std::vector<Finding>& findings) {
  std::map<Meaning, CounterChange> sums;
  for (const auto& [counter, change] : port.health.changes) {
    const Known* found = find_known(counter);
    if (found == nullptr) continue;
    CounterChange& sum = sums[found->meaning];
    sum.count += change.count;
    sum.is_least = sum.is_least || change.is_least;
  }
  for (const auto& [meaning, change] : sums) findings.push_back({meaning, where, change});
}

// Keeps one report for each port. If several processes have read the same port's counters at overlapping
// times, the report that counted most is kept.
std::vector<PortReport> distinct(std::span<const PortReport> ports) {
  const auto total = [](const PortReport& port) {
    std::uint64_t sum = port.health.counters;
    for (const auto& [counter, change] : port.health.changes) sum += change.count;
    return std::tuple(!port.is_lost, sum);
  };
  std::vector<PortReport> kept;
  for (const PortReport& port : ports) {
    const auto same = std::ranges::find_if(
        kept, [&](const PortReport& other) { return other.host == port.host && other.port == port.port; });
    if (same == kept.end())
      kept.push_back(port);
    else if (total(*same) < total(port))
      *same = port;
  }
  return kept;
}

// Says which ports could not be judged; empty if all could.
std::string unseen_text(std::span<const PortReport> ports) {
  std::map<std::string, std::vector<std::string>> by_reason;
  std::size_t count = 0;
  for (const PortReport& port : ports) {
    const std::string why = unseen(port);
    if (why.empty()) continue;
    by_reason[why].push_back(label(port, ports));
    ++count;
  }
  if (by_reason.empty()) return {};
  if (by_reason.size() == 1 && count == ports.size())
    return fmt::format("not seen: {}", by_reason.begin()->first);
  std::vector<std::string> texts;
  for (const auto& [why, names] : by_reason)
    texts.push_back(fmt::format("not seen on {}: {}", fmt::join(names, ", "), why));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

PortHealth compare(const CounterValues& before, const CounterValues& after) {
  PortHealth health;
  bool had_any = false;
  for (const Known& counter : known) {
    const auto first = before.find(counter.name), second = after.find(counter.name);
    had_any = had_any || first != before.end();
    if (first == before.end() || second == after.end()) continue;
    ++health.counters;
    health.sees_transport = health.sees_transport || is_of_transport(counter.meaning);
    const CounterChange change = change_of(counter, first->second, second->second);
    if (change.count != 0 || change.is_least) health.changes.emplace(counter.name, change);
  }
  health.has_vanished = had_any && health.counters == 0;
  return health;
}

std::map<std::string, double> to_counters(const PortHealth& health) {
  std::map<std::string, double> counters;
  counters[std::string(seen_key)] = health.sees_transport ? 1 : 0;
  counters[std::string(vanished_key)] = health.has_vanished ? 1 : 0;
  counters[std::string(count_key)] = health.counters;
  for (const auto& [counter, change] : health.changes) {
    counters[std::string(prefix) + counter] = static_cast<double>(change.count);
    if (change.is_least) counters[std::string(least_prefix) + counter] = 1;
  }
  return counters;
}

std::string rail_prefix(std::uint32_t rail) { return rail == 0 ? "" : fmt::format("rail{}.", rail); }

PortHealth health_from(const std::map<std::string, double>& counters, std::uint32_t rail) {
  PortHealth health;
  const std::string of_rail = rail_prefix(rail);
  for (const auto& [name, value] : counters) {
    if (!name.starts_with(of_rail)) continue;
    const std::string key = name.substr(of_rail.size());
    if (key == seen_key) health.sees_transport = value > 0;
    if (key == vanished_key) health.has_vanished = value > 0;
    if (key == count_key)
      health.counters = static_cast<std::uint32_t>(std::min(whole_count(value), bits(31)));
    if (key.starts_with(prefix)) health.changes[key.substr(prefix.size())].count = whole_count(value);
    if (key.starts_with(least_prefix)) health.changes[key.substr(least_prefix.size())].is_least = value > 0;
  }
  return health;
}

NetworkState judge(std::span<const PortReport> ports) {
  NetworkState state;
  const std::vector<PortReport> all = distinct(ports);
  std::vector<Finding> findings;
  for (const PortReport& port : all) {
    std::ranges::move(symptoms_of(port), std::back_inserter(state.symptoms));
    add_findings(port, label(port, all), findings);
  }
  const std::string faults = list_of(findings, SymptomKind::fault);
  const std::string congestion = list_of(findings, SymptomKind::congestion);
  const std::string missing = unseen_text(all);
  state.is_sick = !faults.empty();
  state.verdict = state.is_sick ? faults : missing.empty() ? "clean" : missing;
  if (!congestion.empty())
    state.verdict +=
        fmt::format("{}congestion: {}", missing.empty() && !state.is_sick ? ", but " : "; ", congestion);
  if (state.is_sick && !missing.empty()) state.verdict += "; " + missing;
  return state;
}

std::string_view name(SymptomKind kind) {
  constexpr std::string_view names[] = {"fault", "congestion", "wait"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace loch::fabric
