// Converts a profile's constants to picoseconds, and makes and ends the shared state of a simulation.
#include "common/fabric/sim/simulation.h"

#include <cmath>

#include "common/fabric/pcie.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
Nanos rounded(double ns) { return static_cast<Nanos>(std::llround(ns)); }
// 10^15 fs a second over bytes a second.
std::int64_t femtos_per_byte(double gbytes_s) {
  return gbytes_s > 0 ? static_cast<std::int64_t>(std::llround(1e6 / gbytes_s)) : 0;
}
}  // namespace

Timing::Timing(const HardwareProfile& profile) {
  const NicProfile& nic = profile.nic;
  request[gap_read] = picos(nic.request_read_ns);
  request[gap_write] = picos(nic.request_write_ns);
  request[gap_send] = picos(nic.request_send_ns);
  request[gap_atomic] = picos(nic.request_atomic_ns);
  respond[gap_read] = picos(nic.respond_read_ns);
  respond[gap_write] = picos(nic.respond_write_ns);
  respond[gap_send] = picos(nic.respond_recv_ns);
  respond[gap_atomic] = picos(nic.respond_atomic_ns);
  request_ud = picos(nic.request_ud_ns);
  response = picos(nic.response_ns);
  request_line = picos(nic.request_line_ns);
  queue_pair = picos(nic.queue_pair_ns);
  payload = picos(nic.payload_ns);
  inline_receive = picos(nic.inline_receive_ns);
  respond_femtos_byte = std::llround(nic.respond_byte_ns * 1e6);
  pipeline = picos(nic.pipeline_ns);
  atomic_hold = picos(nic.atomic_hold_ns);
  const PcieProfile& pcie_bus = profile.pcie;
  pcie_read = picos(pcie_bus.read_ns);
  pcie_write = picos(pcie_bus.write_ns);
  mmio = picos(pcie_bus.mmio_ns);
  fetch_gap = nic.outstanding_fetches > 0 ? pcie_read / nic.outstanding_fetches : 0;
  pcie_femtos_byte = femtos_per_byte(pcie_bus.gbytes_s);
  const double femtos = static_cast<double>(pcie_femtos_byte);
  answer_packet = std::llround((pcie_bus.data_header_bytes + pcie_bus.link_layer_bytes) * femtos / 1000);
  write_packet = std::llround((pcie_bus.read_header_bytes + pcie_bus.link_layer_bytes) * femtos / 1000);
  pcie_packet = Divisor(pcie_bus.packet_bytes);
  mmio_line = dma_write(pcie_line);  // MMIO also takes a write packet
  doorbell_packet = dma_write(doorbell_bytes);
  // Receive requests are fetched ahead of use, one PCIe line at a time.
  recv_fetch = dma_read(pcie_line) * recv_request_bytes / pcie_line;
  completion_entry = dma_write(pcie_bus.completion_bytes);
  page = Divisor(nic.page_bytes);
  mtu = Divisor(profile.link.mtu_bytes);
  framing = profile.link.framing_bytes;
  network = picos(profile.link.switch_ns + profile.link.cable_ns);
  link_femtos_byte = femtos_per_byte(profile.link.gbits_s / 8);
  port_buffer = static_cast<Picos>(profile.link.port_buffer_bytes) * link_femtos_byte / 1000;
  const CpuProfile& cpu = profile.cpu;
  post = rounded(cpu.post_ns);
  post_recv = rounded(cpu.post_recv_ns);
  doorbell = rounded(cpu.doorbell_ns);
  write_combine = rounded(cpu.write_combine_ns);
  poll = rounded(cpu.poll_ns);
  completion = rounded(cpu.completion_ns);
  retry = rounded(nic.retry_timeout_ns);
  rnr = rounded(nic.rnr_timer_ns);
}

Simulation::Simulation(const SimConfig& sim_config)
    : config(sim_config),
      timing(sim_config.hardware),
      hash(mix64(sim_config.seed)),
      fault_rng(sim_config.seed, "faults") {
  if (config.random_tie_order) queue.randomize_ties(config.seed);
  has_faults = config.faults.any();
  const HardwareProfile& hardware = config.hardware;
  Rng clocks(config.seed, "clocks");
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    auto node = std::make_unique<SimNode>();
    node->id = static_cast<NodeId>(i);
    node->atomic_locks.resize(hardware.nic.atomic_buckets);
    node->contexts = ContextCache(hardware.nic.queue_pair_entries);
    node->translations = KeyCache(hardware.nic.translation_entries);
    const double skew = 2 * clocks.uniform() - 1, drift = 2 * clocks.uniform() - 1;
    node->skew = static_cast<std::int64_t>(skew * static_cast<double>(config.faults.clock_skew));
    node->drift_ppb = static_cast<std::int64_t>(drift * config.faults.clock_drift_ppm * 1000);
    node->cpu = std::make_unique<NodeCpu>(queue, hardware.cpu, hardware.scheduler, hardware.power,
                                          sub_seed(config.seed, "cpu", i));
    nodes.push_back(std::move(node));
  }
}

Simulation::~Simulation() {
  // Tasks that did not finish are destroyed while everything that they refer to is there.
  for (auto& worker : workers) worker->end_task();
}

std::uint32_t Simulation::make_rkey(const SimNode& node, std::uint32_t region) const {
  return static_cast<std::uint32_t>(
      sub_seed(config.seed, "rkey",
               (std::uint64_t{node.incarnation} << 40) | (std::uint64_t{node.id} << 20) | region));
}

}  // namespace loch::fabric::sim
