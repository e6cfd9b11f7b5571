// What each stage of a request costs: pure functions of a profile's constants (timing.h) and of the
// request's sizes. requester.cc, switch_port.cc, responder.cc and worker.cc ask them and keep the queues;
// scheduler_costs.h has the same of the cores. docs/simulator.md has a table of them, which is made of these
// comments: formulas are the lines that are indented, sources what follows "Source:" (tests/docs/stages.py).
//
// Times are picoseconds (Picos) or, of the CPU, nanoseconds (Nanos); sizes are bytes. Divisions by 1000 of
// femtoseconds cut the fraction off. In the formulas
//   L, W      bytes of payload; bytes of a message on the wire, headers included (wire.h)
//   ⌈x⌉, ⌊x⌋  rounded up, rounded down
//   g         a gap: the least time between two of a kind at one unit, as in LogGP (Alexandrov et al., 1995);
//             the reciprocal of a measured peak rate
//   B, β      bandwidth of one direction of the link, of PCIe
//   P_r, P_c  header bytes of a PCIe packet that writes, and of one that answers a read; C_rc data bytes of
//             one packet; D bytes of acknowledgments and credits (pcie.link_layer)
//   M, F      MTU; bytes of time that a packet takes beside its own (link.framing)
//   t_x       the latency x of the profile: t_pipeline, t_read, t_write, t_mmio, …
// and "guidelines" are the Design Guidelines for High Performance RDMA Systems (USENIX ATC 2016), "HERD" is
// Using RDMA Efficiently for Key-Value Services (SIGCOMM 2014), "Pilaf 2013" Using One-Sided RDMA Reads to
// Build a Fast, CPU-Efficient Key-Value Store (USENIX ATC 2013). V numbers are rows of `./loch calibrate`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/fabric/pcie.h"
#include "common/fabric/sim/timing.h"
#include "common/fabric/wire.h"

namespace loch::fabric::sim {

// A visit of a request to a first-come-first-served server, in picoseconds: how long the server is busy with
// it, and how long after its turn the request has passed.
struct Visit {
  Picos busy = 0;
  Picos latency = 0;
};

// The way of a request through the servers of one stage, in picoseconds. While a request queues at one server
// it moves up in the queue of the next, so the longest of its turns counts, and all latencies: now + max turn
// + Σ latency. Source: decision 0072.
struct Passage {
  Picos now = 0;
  Picos turn = 0;   // from now
  Picos delay = 0;  // from its turn
  void wait(Picos span) { turn = std::max(turn, span); }
  void visit(Server& server, const Visit& visit) {
    wait(server.turn(now, visit.busy));
    delay += visit.latency;
  }
  [[nodiscard]] Picos end() const { return now + turn + delay; }
};

// ---- Buses ---------------------------------------------------------------------------------------

// `bytes` of data over PCIe in packets with `packet` picoseconds of headers each:
//   bytes/β + ⌈bytes/C_rc⌉ · packet
// Source: guidelines, section 2.1 and Figure 2a; appendix A for C_rc and the link layer.
[[nodiscard]] constexpr Picos pcie_span(const Timing& t, std::uint64_t bytes, Picos packet) {
  const std::uint64_t packets = t.pcie_packet.quotient(bytes + t.pcie_packet.value() - 1);
  return static_cast<Picos>(bytes) * t.pcie_femtos_byte / 1000 + static_cast<Picos>(packets) * packet;
}

// What a DMA read of L bytes takes of the direction towards the NIC:
//   L/β + ⌈L/C_rc⌉ · (P_c + D)/β
// Source: guidelines, section 2.1 and Figure 2a; appendix A for C_rc and the link layer.
[[nodiscard]] constexpr Picos dma_read_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.answer_packet);
}

// What posted writes of L bytes take of their direction:
//   L/β + ⌈L/C_rc⌉ · (P_r + D)/β
// Source: guidelines, section 2.1 and Figure 2a; that writes are cut at C_rc too is assumed.
[[nodiscard]] constexpr Picos dma_write_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.write_packet);
}

// Bytes that are left of a message of L bytes when all but its last packet went over the bus while it was on
// the link:
//   min(L, M)
// Source: a NIC passes on packet by packet; READs of 16 and 1024 B, alone, in 3 and 4 µs (Pilaf 2013, V124).
[[nodiscard]] constexpr std::uint64_t last_packet(const Timing& t, std::uint64_t length) {
  return std::min(length, t.mtu.value());
}

// A message on a link, in n = ⌈L/M⌉ packets, at least one:
//   (W + n · F)/B
// Source: IEEE 802.3, preamble 8 B and gap 12 B a frame; on InfiniBand F is what V167 leaves. W is wire_bytes
// (InfiniBand architecture, volume 1, chapter 9).
[[nodiscard]] constexpr Picos link_span(const Timing& t, std::uint64_t wire, std::uint64_t payload_bytes) {
  const std::uint64_t mtu = t.mtu.value();
  const std::uint64_t packets = payload_bytes <= mtu ? 1 : t.mtu.quotient(payload_bytes + mtu - 1);
  return static_cast<Picos>(wire + packets * t.framing) * t.link_femtos_byte / 1000;
}

// ---- Posting: the CPU hands work requests to its NIC ----------------------------------------------

// 64-byte lines of a work request with i inlined bytes, h = 36 bytes of header, 68 of a datagram:
//   ⌈(h + i)/64⌉, of a datagram without payload 1
// Source: guidelines, Table 1 and section 2.2.2; Figure 5 for the datagram without payload.
[[nodiscard]] constexpr std::uint32_t work_request_lines(Transport transport, std::uint32_t length,
                                                         bool is_inline) {
  return pcie_lines(work_request_bytes(transport, length, is_inline));
}

// The CPU's part of handing over, in nanoseconds, and the time that it takes of the bus.
struct HandOver {
  Nanos cpu = 0;
  Picos bus = 0;
};

// The CPU writes a lone work request of n lines itself:
//   cpu n · t_write_combine, bus n · (64 + P_r + D)/β
// Source: guidelines, sections 2.1 (write combining) and 3.1 (WQE-by-MMIO); 5.2.1: β/(64 + P_r) lines a
// second (V170).
[[nodiscard]] constexpr HandOver hand_over_by_mmio(const Timing& t, std::uint32_t lines) {
  return {t.write_combine * lines, t.mmio_line * lines};
}

// One doorbell for any number of work requests:
//   cpu t_doorbell, bus (8 + P_r + D)/β
// Source: guidelines, section 3.1 (Doorbell) and appendix A.
[[nodiscard]] constexpr HandOver hand_over_by_doorbell(const Timing& t) {
  return {t.doorbell, t.doorbell_packet};
}

// When the NIC has the work request or the doorbell, in nanoseconds; the bus is free `turn` from now:
//   max(end of the CPU's work, now + ⌈turn⌉) + ⌈t_mmio⌉
// Source: the latency of a posted write, one way: pcie.mmio of the profile.
[[nodiscard]] constexpr Nanos handed_over_at(const Timing& t, Nanos now, Nanos busy_until, Picos turn) {
  return std::max(busy_until, now + nanos_up(turn)) + nanos_up(t.mmio);
}

// ---- The requester's NIC --------------------------------------------------------------------------

// Gap of the sending side, for n lines of work request, g_ud of datagrams:
//   (g_verb or g_ud) + (n − 1) · g_line + (the payload is fetched: g_payload)
// Source: HERD, 5.3 (V145) and guidelines, Tables 4 and 5 (V167, V168): peak rates of single verbs; g_line
// and g_payload are differences between the columns of Table 5.
[[nodiscard]] constexpr Picos requesting_gap(const Timing& t, Verb verb, Transport transport,
                                             std::uint32_t lines, bool fetches_payload) {
  const Picos gap = transport == Transport::ud ? t.request_ud : t.request[gap_of(verb)];
  return gap + (lines - 1) * t.request_line + (fetches_payload ? t.payload : 0);
}

// How long a queue pair's processing unit is still busy with the fetched work request before, of which it
// takes one every g_queue_pair:
//   max(busy until − now, 0)
// Source: guidelines, sections 3.3 (a queue pair is bound to a unit) and 5.2.1, Figure 11b (V171).
[[nodiscard]] constexpr Picos unit_wait(Picos busy_until, Picos now) {
  return std::max(busy_until - now, Picos{0});
}

// The NIC fetches a work request of n lines:
//   busy dma_read_span(64 · n), latency t_read + dma_read_span(64 · n)
// Source: guidelines, section 3.1 and appendix A.
[[nodiscard]] constexpr Visit work_request_fetch(const Timing& t, std::uint32_t lines) {
  const Picos data = dma_read_span(t, std::uint64_t{lines} * pcie_line);
  return {data, data + t.pcie_read};
}

// The NIC fetches a payload of L bytes that is not inlined; the message leaves with its first packet:
//   busy dma_read_span(L), latency t_read + dma_read_span(min(L, M))
// Source: guidelines, sections 2.2.2 and 3.2 (inlining saves this DMA).
[[nodiscard]] constexpr Visit payload_fetch(const Timing& t, std::uint64_t length) {
  return {dma_read_span(t, length), t.pcie_read + dma_read_span(t, last_packet(t, length))};
}

// A context, a page's translation or a kept work request that is not in the NIC's cache. One fetch begins
// every t_read/n, where the NIC has n PCIe reads under way (nic.outstanding_fetches); the fetch of this miss
// begins `turn` from now:
//   turn + t_read
// Source: HERD, 5.5 (contexts) and guidelines, 5.3.2 (work requests, V176); that a miss is one PCIe read, and
// how many are under way, is assumed.
[[nodiscard]] constexpr Picos cache_miss(const Timing& t, Picos turn) { return turn + t.pcie_read; }

// First and last page, both included.
struct Pages {
  std::uint64_t first = 0, last = 0;
};

// The pages, by number, in which L bytes at `offset` of a region lie, 0 bytes as 1:
//   ⌊offset/page⌋ to ⌊(offset + L − 1)/page⌋
// Source: a NIC's translations are by page: nic.page of the profile.
[[nodiscard]] constexpr Pages pages_of(const Timing& t, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t first = t.page.quotient(offset);
  return {first, length == 0 ? first : t.page.quotient(offset + length - 1)};
}

// ---- Wire and switch ------------------------------------------------------------------------------

// When the first bytes of a message are at the other node's link, in nanoseconds, if its last bytes are on
// its own node's link at `left`, after `span` there:
//   ⌈left − span + t_switch + t_cable⌉
// Source: cut-through switches; their data sheets, 5 ns a metre of cable.
[[nodiscard]] constexpr Nanos first_bytes_at(const Timing& t, Picos left, Picos span) {
  return nanos_up(left - span + t.network);
}

// Bytes on the wire of a refusal (NAK), an acknowledgment with its header:
//   packet_overhead + 4
// Source: InfiniBand architecture, volume 1, chapter 9 (AETH).
[[nodiscard]] constexpr std::uint32_t refusal_bytes(LinkFormat format) { return packet_overhead(format) + 4; }

// The switch's buffers count bytes as the time that they take on the link. Of `amount` that leaves without a
// break and is gone at `gone`, what is there now:
//   clamp(gone − now, 0, amount)
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (decision 0081).
[[nodiscard]] constexpr Picos still_waiting(Picos now, Picos gone, Picos amount) {
  return std::clamp(gone - now, Picos{0}, amount);
}

// When `part` of an `amount` that is gone at `gone` will have left:
//   min(max(now, gone − amount) + part, max(now, gone))
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (decision 0081).
[[nodiscard]] constexpr Picos part_gone_at(Picos now, Picos gone, Picos amount, Picos part) {
  return std::min(std::max(now, gone - amount) + part, std::max(gone, now));
}

// How much of a message of `span` waits in the switch for its turn on the way out, where `room` is left:
//   min(span, turn, room)
// Source: IEEE 802.1Qbb and 802.3x (decision 0081).
[[nodiscard]] constexpr Picos taken_by_port(Picos span, Picos turn, Picos room) {
  return std::min({span, turn, room});
}

// How long the link of the sender is held while a message of `span` waits in the switch, where `room` is
// left:
//   turn − room if span > room and turn > room, else 0
// Source: IEEE 802.1Qbb and 802.3x (pause), credits of InfiniBand (decision 0081).
[[nodiscard]] constexpr Picos link_held(Picos span, Picos turn, Picos room) {
  return span > room && turn > room ? turn - room : 0;
}

// ---- The responder's NIC --------------------------------------------------------------------------

// What a message does with a posted receive.
enum class Receives : std::uint8_t { nothing, placed, in_completion };

// Gap of the receiving side:
//   READ: g_read + L · g_byte
//   takes no receive: g_verb
//   takes one: g_recv + (L > 0: g_payload, or g_inline_receive in the completion)
// Source: HERD, 5.3 (V145) and guidelines, Tables 4 and 5 (V167, V168); g_byte: Pilaf 2013, Table 1 (V123);
// g_inline_receive: guidelines, 5.2.2 (V173); decision 0073.
[[nodiscard]] constexpr Picos responding_gap(const Timing& t, Verb verb, std::uint32_t length,
                                             Receives receives) {
  if (verb == Verb::read)
    return t.respond[gap_read] + static_cast<Picos>(length) * t.respond_femtos_byte / 1000;
  if (receives == Receives::nothing) return t.respond[gap_of(verb)];
  if (length == 0) return t.respond[gap_send];
  return t.respond[gap_send] + (receives == Receives::in_completion ? t.inline_receive : t.payload);
}

// A READ's L bytes out of memory; the response begins with its first packet:
//   busy dma_read_span(L), latency t_read + dma_read_span(min(L, M))
// Source: guidelines, section 2.1; t_read: 400 to 900 ns are usual, pcie.read of the profile.
[[nodiscard]] constexpr Visit memory_read(const Timing& t, std::uint64_t length) {
  return {dma_read_span(t, length), t.pcie_read + dma_read_span(t, last_packet(t, length))};
}

// L bytes into memory, of a WRITE, or of a SEND beside its completion:
//   busy dma_write_span(L), latency t_write + dma_write_span(min(L, M))
// Source: guidelines, section 2.1 and Figure 6; t_write: pcie.write of the profile.
[[nodiscard]] constexpr Visit memory_write(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), t.pcie_write + dma_write_span(t, last_packet(t, length))};
}

// A payload of L bytes within the completion queue entry of c bytes:
//   busy dma_write_span(c + L), latency t_write + dma_write_span(c + L)
// Source: guidelines, sections 3.2 (inline RECV) and 5.2.2 (V173).
[[nodiscard]] constexpr Visit write_in_completion(const Timing& t, std::uint64_t length) {
  const Picos entry = dma_write_span(t, t.completion_bytes + length);
  return {entry, entry + t.pcie_write};
}

// An atomic holds its lock for a PCIe read and write:
//   busy t_hold, latency t_hold
// Source: guidelines, sections 3.4 and 5.4 (V178): t_hold is the reciprocal of the rate on one counter.
[[nodiscard]] constexpr Visit atomic_update(const Timing& t) { return {t.atomic_hold, t.atomic_hold}; }

// The lock of an atomic at `offset`, of `locks` (a power of two):
//   offset mod locks
// Source: guidelines, 5.4: 4096 buckets by the last 12 bits of the address on Connect-IB, one on ConnectX-3
// (V178).
[[nodiscard]] constexpr std::uint64_t atomic_lock(std::uint64_t offset, std::uint64_t locks) {
  return offset & (locks - 1);
}

// ---- Completion -----------------------------------------------------------------------------------

// A READ's L bytes into the requester's memory; the completion behind them adds t_write:
//   busy dma_write_span(L), latency dma_write_span(min(L, M))
// Source: guidelines, section 2.1; the bytes go over the bus while they come from the link (last_packet).
[[nodiscard]] constexpr Visit data_landing(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), dma_write_span(t, last_packet(t, length))};
}

// When a polling worker has handled a completion or a changed word that comes now, in nanoseconds; it looks
// at nothing while it is busy:
//   max(now + t_poll, end of its work) + t_completion
// Source: cpu.poll of the profile, half a polling loop and a miss to the line that the NIC wrote;
// cpu.completion, cycles that read and acknowledge a completion.
[[nodiscard]] constexpr Nanos handled_at(const Timing& t, Nanos now, Nanos busy_until) {
  return std::max(now + t.poll, busy_until) + t.completion;
}

// ---- Cache lines ----------------------------------------------------------------------------------

// Aligned 64-byte lines that `length` bytes at `offset` touch:
//   ⌈(offset mod 64 + length)/64⌉
// Source: a DMA is whole by the cache line, not beyond: rule 1 of common/fabric/fabric.h.
[[nodiscard]] constexpr std::uint64_t lines_touched(std::uint64_t offset, std::uint64_t length) {
  return (offset % 64 + length + 63) / 64;
}

// Where piece i of n begins in a message of `length` bytes for `offset` that is torn between lines:
//   clamp(64 · ⌊lines_touched · i/n⌋ − offset mod 64, 0, length)
// Source: a DMA is whole by the cache line, not beyond: rule 1 of common/fabric/fabric.h.
[[nodiscard]] constexpr std::uint32_t piece_begin(std::uint64_t offset, std::uint32_t length,
                                                  std::uint64_t piece, std::uint64_t pieces) {
  const std::uint64_t skew = offset % 64;  // bytes of the first line that are not the message's
  const std::uint64_t at = lines_touched(offset, length) * piece / pieces * 64;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(at > skew ? at - skew : 0, length));
}

}  // namespace loch::fabric::sim
