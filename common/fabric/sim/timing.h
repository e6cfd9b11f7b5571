// The constants of a hardware profile in the units in which the simulator computes: picoseconds, and
// femtoseconds per byte. stage_costs.h computes from them what each step of a request costs.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/divisor.h"
#include "common/base/units.h"
#include "common/fabric/sim/hardware.h"
#include "common/fabric/sim/resource.h"
#include "common/fabric/verb.h"

namespace loch::fabric::sim {

// Kinds of requests; a NIC needs a time of its own (gap) between two requests of the same kind.
enum GapKind : std::uint8_t { gap_read, gap_write, gap_send, gap_atomic };
[[nodiscard]] constexpr GapKind gap_of(Verb verb) {
  return verb == Verb::read    ? gap_read
         : verb == Verb::write ? gap_write
         : is_atomic(verb)     ? gap_atomic
                               : gap_send;
}

// Each constant is explained, with its source, at its counterpart in the profile (hardware.h, cpu_profile.h,
// experiments/hardware/*.yaml).
struct Timing {
  explicit Timing(const HardwareProfile& profile);
  Picos request[4];  // gaps at the requester's NIC, indexed by GapKind
  Picos respond[4];
  Picos request_ud = 0, response = 0, pipeline = 0;
  // for how long an atomic holds its lock: in a region that fits into `cached_bytes`, and in a larger one
  Picos atomic_hold = 0, atomic_hold_memory = 0, receive_stall = 0;
  std::uint64_t cached_bytes = 0;  // size of the processor's last-level cache
  Picos request_line = 0, queue_pair = 0, payload = 0, inline_receive = 0;
  bool is_transmit_shared = false;
  std::uint32_t transmit_units = 1;
  Picos context_stall = 0, segment = 0;
  std::uint32_t segment_bytes = 0;  // bytes of a segment of a READ; 0: READs are not cut into segments
  Picos pcie_read = 0, pcie_write = 0, mmio = 0, fetch_gap = 0, network = 0;
  // time on the PCIe bus towards the NIC: of a line written by MMIO, of a doorbell, and of fetching a RECV
  Picos mmio_line = 0, doorbell_packet = 0, recv_fetch = 0;
  Picos completion_entry = 0;  // time of a completion queue entry on the PCIe bus from the NIC to memory
  // What a switch port holds of a node's data until the node has stopped, what is left of it when the switch
  // lets the node go on, and the delay of both, as ps of time on the link. port_buffer 0: unlimited.
  Picos port_buffer = 0, port_xon = 0, pause_delay = 0;
  bool is_pause_plain = true;  // true: no delay, and a link goes on as soon as a packet fits
  std::int64_t link_femtos_byte = 0, pcie_femtos_byte = 0, respond_femtos_byte = 0;
  // PCIe time of one packet's header: of packets that answer reads, and of writes. A packet has `pcie_packet`
  // bytes of data.
  Picos answer_packet = 0, write_packet = 0;
  Divisor pcie_packet;
  std::uint64_t completion_boundary = 0;  // 0: addresses of DMA reads do not matter
  Divisor page, mtu;
  std::uint64_t framing = 0;           // link bytes that a packet takes for its preamble and gap
  std::uint64_t completion_bytes = 0;  // size of a completion queue entry
  Nanos post = 0, post_recv = 0, doorbell = 0, write_combine = 0, poll = 0, completion = 0;
  Nanos retry = 0, rnr = 0;
  // ---- A crowded NIC (CrowdedNic) and processor: 0 and empty if the profile has no constants for them
  std::uint32_t posted_entries = 0, posted_ramp = 0, answer_entries = 0, answer_ramp = 0;
  Picos posted_read = 0, posted_other = 0, answer_miss = 0, queue_pair_latency = 0, busy_fetch = 0;
  // the time in ns for passing a shared doorbell register on is doorbell_pass * threads ^ doorbell_exponent
  double doorbell_pass = 0, doorbell_exponent = 0;
  Nanos doorbell_again = 0, doorbell_take = 0;
  // indexed by the number of busy hardware threads of a node: factor by which work takes more CPU time than
  // on an idle node
  std::vector<double> crowding;
};

}  // namespace loch::fabric::sim
