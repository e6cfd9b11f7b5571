// Converts the constants of a hardware profile to the units of stage_costs.h.
#include "common/fabric/sim/timing.h"

#include <algorithm>
#include <cmath>

#include "common/fabric/sim/scheduler_costs.h"
#include "common/fabric/sim/stage_costs.h"

namespace loch::fabric::sim {
namespace {
Nanos rounded(double ns) { return static_cast<Nanos>(std::llround(ns)); }
// Femtoseconds per byte: 10^15 fs a second, divided by bytes a second.
std::int64_t femtos_per_byte(double gbytes_s) {
  return gbytes_s > 0 ? static_cast<std::int64_t>(std::llround(1e6 / gbytes_s)) : 0;
}

void set_pauses(const LinkProfile& link, Timing* t) {
  if (link.port_buffer_bytes == 0) return;
  const std::uint32_t xon = link.port_buffer_bytes - std::min(link.port_buffer_bytes, link.xon_offset_bytes);
  t->is_pause_plain = link.xon_offset_bytes == 0 && link.pause_delay_ns == 0;
  t->pause_delay = picos(link.pause_delay_ns);
  t->port_xon = static_cast<Picos>(xon) * t->link_femtos_byte / 1000;
  t->port_buffer = static_cast<Picos>(link.port_buffer_bytes) * t->link_femtos_byte / 1000 + t->pause_delay;
}

void set_crowded(const CrowdedNic& nic, const CpuProfile& cpu, Timing* t) {
  t->posted_entries = nic.posted_entries;
  t->posted_ramp = nic.posted_ramp;
  t->posted_read = picos(nic.posted_read_ns);
  t->posted_other = picos(nic.posted_write_ns);
  t->answer_entries = nic.answer_entries;
  t->answer_ramp = nic.answer_ramp;
  t->answer_miss = picos(nic.answer_miss_ns);
  t->queue_pair_latency = picos(nic.queue_pair_latency_ns);
  t->busy_fetch = picos(nic.busy_fetch_ns);
  t->doorbell_again = rounded(nic.doorbell_again_ns);
  t->doorbell_take = rounded(nic.doorbell_take_ns);
  t->doorbell_pass = nic.doorbell_pass_ns;
  t->doorbell_exponent = nic.doorbell_exponent;
  if (cpu.shared_growth == 0 && cpu.sibling_growth == 0) return;
  const std::uint32_t physical = cpu.physical_cores > 0 ? cpu.physical_cores : cpu.cores;
  for (std::uint32_t busy = 0; busy <= cpu.cores; ++busy)
    t->crowding.push_back(crowding(busy, physical, cpu.shared_growth, cpu.sibling_growth));
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
  atomic_hold = atomic_hold_memory = picos(nic.atomic_hold_ns);
  if (nic.atomic_hold_memory_ns > 0) atomic_hold_memory = picos(nic.atomic_hold_memory_ns);
  cached_bytes = profile.cpu.last_level_cache_bytes;
  receive_stall = picos(nic.receive_stall_ns);
  is_transmit_shared = nic.is_transmit_shared;
  transmit_units = nic.transmit_units;
  context_stall = picos(nic.context_stall_ns);
  segment_bytes = nic.segment_bytes;
  segment = picos(nic.segment_ns);
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
  mmio_line = dma_write_span(*this, pcie_line);  // an MMIO write crosses PCIe as a write packet
  doorbell_packet = dma_write_span(*this, doorbell_bytes);
  // The NIC fetches RECV requests ahead of their use, a 64-byte line at a time.
  recv_fetch = dma_read_span(*this, pcie_line) * recv_request_bytes / pcie_line;
  completion_bytes = pcie_bus.completion_bytes;
  completion_boundary = pcie_bus.completion_boundary_bytes;
  completion_entry = dma_write_span(*this, completion_bytes);
  page = Divisor(nic.page_bytes);
  mtu = Divisor(profile.link.mtu_bytes);
  framing = profile.link.framing_bytes;
  network = picos(profile.link.switch_ns + profile.link.cable_ns);
  link_femtos_byte = femtos_per_byte(profile.link.gbits_s / 8);
  set_pauses(profile.link, this);
  const CpuProfile& cpu = profile.cpu;
  post = rounded(cpu.post_ns);
  post_recv = rounded(cpu.post_recv_ns);
  doorbell = rounded(cpu.doorbell_ns);
  write_combine = rounded(cpu.write_combine_ns);
  poll = rounded(cpu.poll_ns);
  completion = rounded(cpu.completion_ns);
  retry = rounded(nic.retry_timeout_ns);
  rnr = rounded(nic.rnr_timer_ns);
  set_crowded(nic.crowded, cpu, this);
}

}  // namespace loch::fabric::sim
