// Gathers the counters of simulated nodes into the fabric's report.
#include "common/fabric/sim/report.h"

#include <algorithm>

#include "common/fabric/sim/power.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {

double share(Picos busy, Nanos span) {
  return span > 0 ? static_cast<double>(busy) / (static_cast<double>(span) * 1e3) : 0;
}

NodeReport report_node(const SimNode& node, const HardwareProfile& hardware, Nanos span) {
  NodeReport report;
  report.tx_wire_bytes = node.tx_bytes;
  report.rx_wire_bytes = node.rx_bytes;
  report.is_lost = node.was_lost;
  for (const SimWorker* worker : node.workers)
    report.is_lost = report.is_lost || (worker != nullptr && worker->is_dead());
  const CpuUsage usage = node.cpu->usage();
  report.cpu_busy = usage.busy_fraction();
  report.client_busy = usage.role_fraction(ThreadRole::client);
  report.server_busy = usage.role_fraction(ThreadRole::server);
  if (span > 0) {
    const double seconds = static_cast<double>(span) * 1e-9;
    const double bytes = static_cast<double>(node.tx_bytes + node.rx_bytes);
    const NicUsage nic{bytes, bytes * 8 / (2 * hardware.link.gbits_s * 1e9 * seconds)};
    report.power_w = power_draw(hardware.power, usage, nic).total_w();
  }
  auto& c = report.counters;
  const auto count = [&c](const char* key, std::uint64_t value) { c[key] = static_cast<double>(value); };
  count("nic_requests", node.requests);
  count("nic_responses", node.responses);
  count("nic_queue_pair_misses", node.context_misses);
  count("nic_translation_misses", node.translation_misses);
  count("nic_work_request_misses", node.work_request_misses);
  count("nic_retries", node.retries);
  count("nic_lost", node.lost);
  if (hardware.nic.crowded.posted_entries > 0) count("nic_posted", node.posted);
  if (hardware.nic.crowded.queue_pair_latency_ns > 0) count("nic_queue_pairs", node.queue_pairs_in_use);
  c["nic_requester_busy"] = share(node.requester.busy, span);
  c["nic_responder_busy"] = share(node.responder.busy, span);
  c["nic_fetch_busy"] = share(node.fetch.busy, span);
  c["pcie_read_busy"] = share(node.pcie_read.busy, span);
  c["pcie_write_busy"] = share(node.pcie_write.busy, span);
  c["link_tx_busy"] = share(node.egress.busy, span);
  c["link_rx_busy"] = share(node.ingress.busy, span);
  // share of time for which an atomic that waited for a place held up what arrived behind it
  if (hardware.nic.atomic_places > 0) c["nic_held_by_atomics"] = share(node.held_by_atomics, span);
  // share of time for which the switch paused the node's link because the port's buffer was full
  c["link_held"] = share(node.port.paused, span);
  // Counters of the background CPU workers, with the names that runs in real time use
  // (common/fabric/background/background.h).
  const auto background = static_cast<std::size_t>(ThreadRole::background);
  c["hog_hashes"] = usage.background_hashes;
  c["hog_cpu_s"] = static_cast<double>(usage.role_ns[background]) / 1e9;
  c["hog_wall_s"] = static_cast<double>(span) * usage.role_threads[background] / 1e9;
  return report;
}

}  // namespace

std::uint64_t allocations(Parts parts) {
  std::uint64_t sum = 0;
  for (const auto& sim : parts) {
    sum += sim->staging.allocations() + sim->requests.allocations() + sim->queue_pairs.allocations() +
           sim->watches.allocations() + sim->alarms.allocations();
  }
  return sum;
}

void reset_counters(SimNode& node) {
  node.tx_bytes = node.rx_bytes = 0;
  node.context_misses = node.translation_misses = node.work_request_misses = 0;
  node.requests = node.responses = node.retries = node.lost = 0;
  node.port.paused = node.held_by_atomics = 0;
  for (Server* server : {&node.requester, &node.responder, &node.fetch, &node.pcie_read, &node.pcie_write,
                         &node.egress, &node.ingress}) {
    server->busy = 0;
  }
  node.cpu->reset_usage();
}

void reset_books(Parts parts, Books* books) {
  books->since = parts.front()->now();
  books->allocations = allocations(parts);
  for (auto& node : parts.front()->nodes) reset_counters(*node);
}

FabricReport make_report(Parts parts, const Books& books, double wall_s) {
  const Simulation& sim = *parts.front();
  FabricReport report;
  const Nanos span = sim.now() - books.since;
  for (const auto& node : sim.nodes) report.nodes.push_back(report_node(*node, sim.config.hardware, span));
  SimReport run;
  for (const auto& each : parts) run.events += each->queue.popped();
  run.virtual_s = static_cast<double>(sim.now()) * 1e-9;
  run.wall_s = wall_s;
  for (const auto& each : parts) run.trace_hash += each->hash;
  run.request_allocations = allocations(parts) - books.allocations;
  report.sim = run;
  return report;
}

}  // namespace loch::fabric::sim
