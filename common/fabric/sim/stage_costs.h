// What each stage of a request costs: pure functions of a profile's constants (timing.h) and of the
// request's sizes. requester.cc, switch_port.cc, responder.cc and worker.cc call them and keep the queues;
// scheduler_costs.h has the functions for the cores. The table of them in docs/simulator.md is generated from
// these comments: indented lines are formulas, the text after "Source:" is the source (tests/docs/stages.py).
//
// Times are picoseconds (Picos), or nanoseconds (Nanos) for the CPU; sizes are bytes. Femtoseconds are
// converted to picoseconds by integer division. In the formulas
//   L, W      bytes of payload; bytes of a message on the wire, headers included (wire.h)
//   ⌈x⌉, ⌊x⌋  rounded up, rounded down
//   g         a gap: the least time between two requests of a kind at one unit, as in LogGP (Alexandrov
//             et al., 1995); the reciprocal of a measured peak rate
//   B, β      bandwidth of one direction of the link, of PCIe
//   P_r, P_c  header bytes of a PCIe packet that writes, and of one that answers a read; C_rc data bytes of
//             one packet; D bytes of acknowledgments and credits (pcie.link_layer)
//   M, F      MTU; bytes that a packet takes on the link beside its own (link.framing)
//   t_x       the latency x of the profile: t_pipeline, t_read, t_write, t_mmio, …
// "Kalia et al. 2016" is Design Guidelines for High Performance RDMA Systems (USENIX ATC 2016), "HERD 2014"
// is Using RDMA Efficiently for Key-Value Services (SIGCOMM 2014), "Pilaf 2013" is Using One-Sided RDMA Reads
// to Build a Fast, CPU-Efficient Key-Value Store (USENIX ATC 2013). V numbers are rows of `./loch calibrate`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/fabric/pcie.h"
#include "common/fabric/sim/timing.h"
#include "common/fabric/wire.h"

namespace loch::fabric::sim {

// A request's visit to a first-come-first-served server, in picoseconds: how long the server is busy with the
// request, and the latency from the time at which the server begins with the request until the request leaves
// the server.
struct Visit {
  Picos busy = 0;
  Picos latency = 0;
};

// The delays of a request at the servers of one stage, in picoseconds. While a request queues at one server
// it moves up in the queue of the next, so only its longest wait for a server counts, but the latencies of
// all servers: the request leaves the stage at now + longest wait + Σ latency. Source: docs/decisions/0072.
struct Passage {
  Picos now = 0;
  Picos turn = 0;   // longest wait for a server, from now
  Picos delay = 0;  // sum of the latencies of the servers
  void wait(Picos span) { turn = std::max(turn, span); }
  // Lets the request reach the servers that follow at `until` and not before.
  void hold(Picos until) {
    if (until <= now) return;
    turn = std::max(turn - (until - now), Picos{0});
    now = until;
  }
  void visit(Server& server, const Visit& visit) {
    wait(server.turn(now, visit.busy));
    delay += visit.latency;
  }
  [[nodiscard]] Picos end() const { return now + turn + delay; }
};

// ---- Buses ---------------------------------------------------------------------------------------

// PCIe time in picoseconds of `bytes` bytes of data at the bandwidth β of PCIe, in packets of C_rc data
// bytes, each with `packet` picoseconds for its header:
//   bytes/β + ⌈bytes/C_rc⌉ · packet
// Source: Kalia et al. 2016, section 2.1 and Figure 2a; appendix A for C_rc and the link layer.
[[nodiscard]] constexpr Picos pcie_span(const Timing& t, std::uint64_t bytes, Picos packet) {
  const std::uint64_t packets = t.pcie_packet.quotient(bytes + t.pcie_packet.value() - 1);
  return static_cast<Picos>(bytes) * t.pcie_femtos_byte / 1000 + static_cast<Picos>(packets) * packet;
}

// PCIe time of a DMA read of L bytes, in the direction towards the NIC. β is the bandwidth of PCIe; a packet
// has C_rc data bytes, P_c header bytes, and D bytes of acknowledgments and credits:
//   L/β + ⌈L/C_rc⌉ · (P_c + D)/β
// Source: Kalia et al. 2016, section 2.1 and Figure 2a; appendix A for C_rc and the link layer.
[[nodiscard]] constexpr Picos dma_read_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.answer_packet);
}

// Number of packets that answer a DMA read of L bytes at the address `at`. The first one ends at a multiple
// of R bytes (the read completion boundary), the others have C_rc data bytes. Without R (0), addresses do not
// matter:
//   R = 0 or at mod R = 0: ⌈L/C_rc⌉; else 1 + ⌈max(0, L − (R − at mod R))/C_rc⌉
// Source: PCI Express base specification 3.0, section 2.3.1.1 (read completion boundary, 64 or 128 B); C_rc:
// Kalia et al. 2016, appendix A.
[[nodiscard]] constexpr std::uint64_t read_completions(const Timing& t, std::uint64_t at,
                                                       std::uint64_t bytes) {
  const std::uint64_t past = t.completion_boundary == 0 ? 0 : at % t.completion_boundary;
  const std::uint64_t first = past == 0 ? 0 : std::min(bytes, t.completion_boundary - past);
  return (first > 0) + t.pcie_packet.quotient(bytes - first + t.pcie_packet.value() - 1);
}

// PCIe time of a DMA read of L bytes at the address `at`, in n packets, by read_completions:
//   L/β + n · (P_c + D)/β
// Source: Kalia et al. 2016, section 2.1 and Figure 2a; the number of packets: read_completions.
[[nodiscard]] constexpr Picos dma_read_span_at(const Timing& t, std::uint64_t at, std::uint64_t bytes) {
  return static_cast<Picos>(bytes) * t.pcie_femtos_byte / 1000 +
         static_cast<Picos>(read_completions(t, at, bytes)) * t.answer_packet;
}

// PCIe time of posted writes of L bytes, in the direction of the writes. β is the bandwidth of PCIe; a packet
// has C_rc data bytes, P_r header bytes, and D bytes of acknowledgments and credits:
//   L/β + ⌈L/C_rc⌉ · (P_r + D)/β
// Source: Kalia et al. 2016, section 2.1 and Figure 2a; assumed: writes are cut into packets of C_rc bytes
// too.
[[nodiscard]] constexpr Picos dma_write_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.write_packet);
}

// How many bytes of a message of L bytes still have to cross PCIe when the whole message has come over the
// link: those of its last packet, of at most M bytes (the MTU), because the earlier packets crossed PCIe
// meanwhile:
//   min(L, M)
// Source: a NIC passes on packet by packet; single READs of 16 and 1024 B take 3 and 4 µs (Pilaf 2013,
// section 2.1; row V124 of `loch calibrate`).
[[nodiscard]] constexpr std::uint64_t last_packet(const Timing& t, std::uint64_t length) {
  return std::min(length, t.mtu.value());
}

// Time of a message on a link of bandwidth B. The message has W bytes, headers included, in n packets of up
// to M payload bytes (the MTU): n = ⌈L/M⌉ for L payload bytes, but at least 1. Each packet occupies the link
// for F bytes more (preamble and gap):
//   (W + n · F)/B
// Source: IEEE 802.3: preamble 8 B and gap 12 B a frame; on InfiniBand F is derived from Table 4 of Kalia et
// al. 2016 (row V167 of `loch calibrate`); W is computed by wire_bytes (InfiniBand architecture, volume 1,
// chapter 9).
[[nodiscard]] constexpr Picos link_span(const Timing& t, std::uint64_t wire, std::uint64_t payload_bytes) {
  const std::uint64_t mtu = t.mtu.value();
  const std::uint64_t packets = payload_bytes <= mtu ? 1 : t.mtu.quotient(payload_bytes + mtu - 1);
  return static_cast<Picos>(wire + packets * t.framing) * t.link_femtos_byte / 1000;
}

// ---- Posting: the CPU hands work requests to its NIC ----------------------------------------------

// Number of 64-byte lines of a work request with a header of h bytes (36, or 68 for a datagram) and i bytes
// of inlined payload:
//   ⌈(h + i)/64⌉; 1 for a datagram without payload
// Source: Kalia et al. 2016, Table 1 and section 2.2.2; Figure 5 for the datagram without payload.
[[nodiscard]] constexpr std::uint32_t work_request_lines(Transport transport, std::uint32_t length,
                                                         bool is_inline) {
  return pcie_lines(work_request_bytes(transport, length, is_inline));
}

// Cost of handing work requests to the NIC: CPU time in nanoseconds, and PCIe time in picoseconds.
struct HandOver {
  Nanos cpu = 0;
  Picos bus = 0;
};

// Whether a work request that is posted alone is written by MMIO (BlueFlame): if it fits into a BlueFlame
// buffer of B bytes, with a header of h bytes (36, or 68 for a datagram) and i bytes of inlined payload, and
// if the library does so with its kind. libmlx5 and the libmlx4 of Mellanox's OFED do with all kinds but a
// SEND of a connection without payload; rdma-core's libmlx4 with READs, inlined payloads and WRITEs without
// payload. The doorbell is rung for all others.
//   ⌈(h + i)/16⌉ · 16 ≤ B, and the kind is one that the library writes
// Source: mlx4_post_send in providers/mlx4/qp.c and post_send_db in providers/mlx5/qp.c of rdma-core;
// prefer_bf, by default on, in Mellanox's libmlx4. Left out: libmlx4 has 4 bytes more for each further line
// of inlined payload.
[[nodiscard]] constexpr bool is_written_by_mmio(const NicProfile& nic, const WorkRequest& wr) {
  constexpr std::uint32_t unit = 16;
  const std::uint32_t bytes = work_request_bytes(wr.transport, wr.length, wr.is_inline);
  if (nic.posting == Posting::doorbell || (bytes + unit - 1) / unit * unit > nic.blueflame_bytes)
    return false;
  const bool is_empty = wr.length == 0 && wr.verb == Verb::send;
  if (nic.posting == Posting::any) return !is_empty || wr.transport == Transport::ud;
  return wr.verb == Verb::read || (wr.length > 0 ? wr.is_inline : wr.verb == Verb::write);
}

// CPU and PCIe time of handing over one work request of n 64-byte lines by MMIO: the CPU writes the lines to
// the NIC itself, in t_write_combine each. On PCIe, of bandwidth β, a line has P_r header bytes and D bytes
// of acknowledgments and credits:
//   cpu n · t_write_combine, bus n · (64 + P_r + D)/β
// Source: Kalia et al. 2016, sections 2.1 (write combining) and 3.1 (WQE-by-MMIO); section 5.2.1 has β/(64 +
// P_r) lines a second (row V170 of `loch calibrate`).
[[nodiscard]] constexpr HandOver hand_over_by_mmio(const Timing& t, std::uint32_t lines) {
  return {t.write_combine * lines, t.mmio_line * lines};
}

// CPU and PCIe time of ringing one doorbell for any number of work requests: t_doorbell for the CPU; on PCIe,
// of bandwidth β, 8 bytes with P_r header bytes and D bytes of acknowledgments and credits:
//   cpu t_doorbell, bus (8 + P_r + D)/β
// Source: Kalia et al. 2016, section 3.1 (Doorbell) and appendix A.
[[nodiscard]] constexpr HandOver hand_over_by_doorbell(const Timing& t) {
  return {t.doorbell, t.doorbell_packet};
}

// Time in nanoseconds at which the NIC has the work request or the doorbell that the CPU hands over. The PCIe
// bus is busy with earlier transfers for `turn` picoseconds from now, and a write takes t_mmio to reach the
// NIC:
//   max(end of the CPU's work, now + ⌈turn⌉) + ⌈t_mmio⌉
// Source: the latency of a posted write, one way: pcie.mmio of the profile.
[[nodiscard]] constexpr Nanos handed_over_at(const Timing& t, Nanos now, Nanos busy_until, Picos turn) {
  return std::max(busy_until, now + nanos_up(turn)) + nanos_up(t.mmio);
}

// ---- The requester's NIC --------------------------------------------------------------------------

// Time that the requester's side of the NIC needs for a work request of n 64-byte lines before the next one:
// g_verb by the verb, or g_ud for a datagram; g_line for each line after the first; and g_payload if the NIC
// fetches the payload:
//   (g_verb or g_ud) + (n − 1) · g_line + (the payload is fetched: g_payload)
// Source: HERD 2014, section 5.3 (row V145 of `loch calibrate`) and Kalia et al. 2016, Tables 4 and 5 (rows
// V167 and V168 of `loch calibrate`): peak rates of single verbs; g_line and g_payload are differences
// between the columns of Table 5.
[[nodiscard]] constexpr Picos requesting_gap(const Timing& t, Verb verb, Transport transport,
                                             std::uint32_t lines, bool fetches_payload) {
  const Picos gap = transport == Transport::ud ? t.request_ud : t.request[gap_of(verb)];
  return gap + (lines - 1) * t.request_line + (fetches_payload ? t.payload : 0);
}

// How much longer the gap (least time between two requests) of a READ of L bytes is, at the requester's NIC
// and once more at the responder's, on a NIC that cuts READs into segments of s bytes; s = 0: it does not:
//   (⌈L/s⌉ − 1) · g_segment
// Source: rc-swarm (measured READ rates, experiments/hardware/data), sizes: a ConnectX-3 takes 41 ns more for
// a READ of 264 than of 232 bytes, asked and answered; that either side takes half of it is assumed.
[[nodiscard]] constexpr Picos segments_gap(const Timing& t, Verb verb, std::uint32_t length) {
  if (verb != Verb::read || t.segment_bytes == 0 || length == 0) return 0;
  return (length - 1) / t.segment_bytes * t.segment;
}

// How long the unit of a NIC that transmits both requests and the data that answer READs is busy with a
// message whose gap (least time to the next message) is g and which takes `span` on the link:
//   max(g, span)
// Source: rc-swarm (measured READ rates, experiments/hardware/data): a Connect-IB that asks and answers at
// once takes g_request + max(g_respond, span) for a READ, 19.6 ns at 8 bytes and 43.9 at 392 (measured: 19.5
// and 43.5).
[[nodiscard]] constexpr Picos transmit_hold(Picos gap, Picos span) { return std::max(gap, span); }

// How long one of a NIC's n transmitting units is busy with a message for which all n together would need
// `gap`:
//   n · gap
// Source: rc-swarm (measured READ rates, experiments/hardware/data), windows: below the peak rate of a
// Connect-IB, READs wait for each other some eight times as long as one takes.
[[nodiscard]] constexpr Picos unit_span(const Timing& t, Picos gap) { return t.transmit_units * gap; }

// Number, within its node, of the queue pair by which worker w is connected on lane l (index among its queue
// pairs to one node) with the worker of the same number at the node `other`, of N nodes; a is the number of
// nodes before `other`, without the own one:
//   w · (N − 1) + a + l
// Source: queue pairs are numbered as they are made, all of one worker before those of the next.
[[nodiscard]] constexpr std::uint32_t connection_number(std::uint32_t worker, NodeId own, NodeId other,
                                                        std::uint32_t lane, std::uint32_t nodes) {
  const std::uint32_t before = other > own ? other - 1u : other;
  return worker * (nodes - 1) + before + lane;
}

// Number of the transmitting unit, of n, to which queue pair k of a node is bound:
//   k mod n
// Source: Kalia et al. 2016, sections 3.3 (a queue pair is bound to a unit) and 5.2.1; that queue pairs are
// assigned in rotation is assumed.
[[nodiscard]] constexpr std::uint32_t unit_of(const Timing& t, std::uint32_t queue_pair) {
  return queue_pair % t.transmit_units;
}

// For how many picoseconds a queue pair's processing unit in the NIC is still busy with the work request that
// it fetched before this one. The unit takes one work request every g_queue_pair:
//   max(busy until − now, 0)
// Source: Kalia et al. 2016, sections 3.3 (a queue pair is bound to a unit) and 5.2.1, Figure 11b (row V171
// of `loch calibrate`).
[[nodiscard]] constexpr Picos unit_wait(Picos busy_until, Picos now) {
  return std::max(busy_until - now, Picos{0});
}

// For how long a NIC's fetch of a work request of n 64-byte lines keeps PCIe busy, and the fetch's latency;
// t_read is the latency of a DMA read:
//   busy dma_read_span(64 · n), latency t_read + dma_read_span(64 · n)
// Source: Kalia et al. 2016, section 3.1 and appendix A.
[[nodiscard]] constexpr Visit work_request_fetch(const Timing& t, std::uint32_t lines) {
  const Picos data = dma_read_span(t, std::uint64_t{lines} * pcie_line);
  return {data, data + t.pcie_read};
}

// For how long a NIC's fetch of a payload of L bytes at the address `at` that is not inlined keeps PCIe busy,
// and the latency until the message leaves with its first packet of at most M bytes (the MTU); t_read is the
// latency of a DMA read:
//   busy dma_read_span_at(at, L), latency t_read + dma_read_span_at(at, min(L, M))
// Source: Kalia et al. 2016, sections 2.2.2 and 3.2 (inlining saves this DMA).
[[nodiscard]] constexpr Visit payload_fetch(const Timing& t, std::uint64_t at, std::uint64_t length) {
  return {dma_read_span_at(t, at, length), t.pcie_read + dma_read_span_at(t, at, last_packet(t, length))};
}

// Latency of a miss in the NIC's cache of contexts, page translations or work requests. A miss is one PCIe
// read of latency t_read. The NIC can have n such reads under way (nic.outstanding_fetches), so it begins one
// every t_read/n; the read for this miss begins `turn` picoseconds from now:
//   turn + t_read
// Source: HERD 2014, section 5.5 (contexts) and Kalia et al. 2016, section 5.3.2 (work requests; row V176 of
// `loch calibrate`); that a miss is one PCIe read, and how many are under way, is assumed.
[[nodiscard]] constexpr Picos cache_miss(const Timing& t, Picos turn) { return turn + t.pcie_read; }

// How long the transmitting unit of a NIC stops because a queue pair's context is not in the NIC's cache: at
// the requester's NIC for any request, at the responder's for a READ or an atomic:
//   (the context is not in the NIC's cache: t_context)
// Source: rc-swarm (measured READ rates, experiments/hardware/data), queue pairs: a READ asked and answered
// takes 0.8 µs more on a ConnectX-3, and some 12 ns on a Connect-IB, when hardly a context is cached. That
// READs through cached contexts wait too follows from rates that stay even; that no arriving WRITE or SEND
// does is assumed.
[[nodiscard]] constexpr Picos context_stall(const Timing& t, bool is_miss) {
  return is_miss ? t.context_stall : 0;
}

// How long the unit that takes what arrives stops because a message's context or the first translation of its
// memory is not in the NIC's cache:
//   (the entry is not in the NIC's cache: t_receive)
// Source: assumed by analogy with context_stall; off in every profile, since no microbenchmark asks for it
// (docs/fidelity.md).
[[nodiscard]] constexpr Picos receive_stall(const Timing& t, bool is_miss) {
  return is_miss ? t.receive_stall : 0;
}

// The first and the last page that a buffer touches, both included.
struct Pages {
  std::uint64_t first = 0, last = 0;
};

// Numbers of the first and the last page, of `page` bytes each, in which L bytes at `offset` of a region lie;
// 0 bytes count as 1 byte:
//   ⌊offset/page⌋ to ⌊(offset + L − 1)/page⌋
// Source: a NIC's translations are by page: nic.page of the profile.
[[nodiscard]] constexpr Pages pages_of(const Timing& t, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t first = t.page.quotient(offset);
  return {first, length == 0 ? first : t.page.quotient(offset + length - 1)};
}

// ---- A crowded NIC ---------------------------------------------------------------------------------

// What misses in a NIC's cache of E entries add on average to a gap (least time between two requests) when n
// requests use the cache and one miss adds `miss`: the share of requests that miss grows from 0 at n = E to 1
// at n = E + R:
//   miss · clamp((n − E)/R, 0, 1)
// Source: SMART's microbenchmarks (smart-micro-fig4-heatmap.csv): as the outstanding requests grow, the rate
// falls from some number of them on, and from a larger one on it stays.
[[nodiscard]] constexpr Picos overflow_gap(Picos miss, std::uint32_t n, std::uint32_t entries,
                                           std::uint32_t ramp) {
  if (miss == 0 || n <= entries) return 0;
  if (n - entries >= ramp) return miss;
  return miss * (n - entries) / ramp;
}

// What misses in the cache of work requests add to the gap (least time between two requests) at the
// requester's NIC while n requests of the node are posted and unanswered:
//   overflow_gap(g_posted of the verb, n, E_posted, R_posted)
// Source: as for overflow_gap; the cache is that of work requests (SMART, ASPLOS 2024).
[[nodiscard]] constexpr Picos posted_gap(const Timing& t, Verb verb, std::uint32_t posted) {
  const Picos miss = gap_of(verb) == gap_read || gap_of(verb) == gap_atomic ? t.posted_read : t.posted_other;
  return overflow_gap(miss, posted, t.posted_entries, t.posted_ramp);
}

// What cache misses add to the gap (least time between two answers) at the NIC that receives the answers to
// READs and atomics, while n of these are on the wire:
//   overflow_gap(g_answer, n, E_answer, R_answer)
// Source: as for overflow_gap: the rate of READs alone falls a second time, where 1,000 to 1,700 are on the
// wire.
[[nodiscard]] constexpr Picos answer_gap(const Timing& t, std::uint32_t on_the_way) {
  return overflow_gap(t.answer_miss, on_the_way, t.answer_entries, t.answer_ramp);
}

// Latency of one pass through a NIC at which n queue pairs are in use:
//   t_pipeline + n · t_queue_pair
// Source: SMART's microbenchmarks (smart-micro-fig4-heatmap.csv) with one outstanding request: latency grows
// with the threads, each of which has a queue pair.
[[nodiscard]] constexpr Picos pass_latency(const Timing& t, std::uint32_t queue_pairs) {
  return t.pipeline + queue_pairs * t.queue_pair_latency;
}

// For how long a thread occupies a doorbell register that the driver locks. is_again: the thread also had the
// register last, as it always has one that no other thread has; k threads hold or await it, this one
// included:
//   is_again: t_again; else k = 1: t_take; else t_pass · k^e
// Source: SMART (ASPLOS 2024), section 3.1: each register is behind one spin lock; the form and the constants
// by smart-micro-fig3-threads.csv, per_thread_qp, and t_again by one thread of per_thread_doorbell as well.
[[nodiscard]] inline Nanos doorbell_hold(const Timing& t, bool is_again, std::size_t threads) {
  if (is_again) return t.doorbell_again;
  if (threads == 1) return t.doorbell_take;
  return std::llround(t.doorbell_pass * std::pow(static_cast<double>(threads), t.doorbell_exponent));
}

// ---- Wire and switch ------------------------------------------------------------------------------

// Time in nanoseconds at which the first bytes of a message reach the other node's link. The message occupies
// its own node's link for `span` picoseconds, until the time `left`; t_switch and t_cable are the latencies
// of the switch and of the cables:
//   ⌈left − span + t_switch + t_cable⌉
// Source: cut-through switches; their data sheets, 5 ns a metre of cable.
[[nodiscard]] constexpr Nanos first_bytes_at(const Timing& t, Picos left, Picos span) {
  return nanos_up(left - span + t.network);
}

// Bytes on the wire of a refusal (NAK), which is an acknowledgment: packet_overhead bytes of packet headers,
// and 4 bytes of its own header (AETH):
//   packet_overhead + 4
// Source: InfiniBand architecture, volume 1, chapter 9 (AETH).
[[nodiscard]] constexpr std::uint32_t refusal_bytes(LinkFormat format) { return packet_overhead(format) + 4; }

// How much data is in a switch's buffer now, measured as its time on the link. The data, `amount` picoseconds
// in all, leave without a break and have left completely at the time `gone`:
//   clamp(gone − now, 0, amount)
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (docs/decisions/0081).
[[nodiscard]] constexpr Picos still_waiting(Picos now, Picos gone, Picos amount) {
  return std::clamp(gone - now, Picos{0}, amount);
}

// Time at which the first `part` picoseconds of the data in a switch's buffer, measured as time on the link,
// will have left, if all `amount` picoseconds of the data will have left at the time `gone`:
//   min(max(now, gone − amount) + part, max(now, gone))
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (docs/decisions/0081).
[[nodiscard]] constexpr Picos part_gone_at(Picos now, Picos gone, Picos amount, Picos part) {
  return std::min(std::max(now, gone - amount) + part, std::max(gone, now));
}

// How much of a message waits in the switch's buffer. The message's transmission, which takes `span`, begins
// `turn` from now, and the buffer has room for `room`, all in picoseconds of time on the link:
//   min(span, turn, room)
// Source: IEEE 802.1Qbb and 802.3x (docs/decisions/0081).
[[nodiscard]] constexpr Picos taken_by_port(Picos span, Picos turn, Picos room) {
  return std::min({span, turn, room});
}

// For how long the switch pauses the sender's link. The message's transmission at the output port, which
// takes `span`, begins `turn` from now, and the switch's buffer has room for `room`, all in picoseconds of
// time on the link:
//   turn − room if span > room and turn > room, else 0
// Source: IEEE 802.1Qbb and 802.3x (pause), credits of InfiniBand (docs/decisions/0081).
[[nodiscard]] constexpr Picos link_held(Picos span, Picos turn, Picos room) {
  return span > room && turn > room ? turn - room : 0;
}

// How long the output port has none of a message's data to send, because the sender's link is still paused.
// The port begins to send the message `turn` from now, has `room` of it in the buffer, and gets more of it
// from `resumed` from now on, all in picoseconds of time on the link:
//   max(0, resumed − (turn + room))
// Source: IEEE 802.1Qbb and 802.3x: XON takes effect after a delay (docs/decisions/0081).
[[nodiscard]] constexpr Picos port_starved(Picos turn, Picos room, Picos resumed) {
  return std::max(Picos{0}, resumed - (turn + room));
}

// ---- The responder's NIC --------------------------------------------------------------------------

// What a message does with a posted receive buffer: nothing, place its payload there, or carry its payload in
// the completion queue entry.
enum class Receives : std::uint8_t { nothing, placed, in_completion };

// Time that the responder's side of the NIC needs for a request before the next one. A READ needs g_read, and
// g_byte for each of its L bytes. A request that takes no posted receive buffer needs g_verb, by its verb. A
// request that takes one needs g_recv and, for its payload, g_payload, or g_inline_receive if the payload is
// in the completion queue entry:
//   READ: g_read + L · g_byte
//   takes no receive: g_verb
//   takes one: g_recv + (L > 0: g_payload, or g_inline_receive in the completion)
// Source: HERD 2014, section 5.3 (row V145 of `loch calibrate`) and Kalia et al. 2016, Tables 4 and 5 (rows
// V167 and V168 of `loch calibrate`); g_byte: Pilaf 2013, Table 1 (row V123 of `loch calibrate`);
// g_inline_receive: Kalia et al. 2016, section 5.2.2 (row V173 of `loch calibrate`); docs/decisions/0073.
[[nodiscard]] constexpr Picos responding_gap(const Timing& t, Verb verb, std::uint32_t length,
                                             Receives receives) {
  if (verb == Verb::read)
    return t.respond[gap_read] + static_cast<Picos>(length) * t.respond_femtos_byte / 1000;
  if (receives == Receives::nothing) return t.respond[gap_of(verb)];
  if (length == 0) return t.respond[gap_send];
  return t.respond[gap_send] + (receives == Receives::in_completion ? t.inline_receive : t.payload);
}

// For how long PCIe is busy while the NIC reads the L bytes of a READ from memory at the address `at`, and
// the latency until the response leaves with its first packet of at most M bytes (the MTU); t_read is the
// latency of a DMA read:
//   busy dma_read_span_at(at, L), latency t_read + dma_read_span_at(at, min(L, M))
// Source: Kalia et al. 2016, section 2.1; t_read (pcie.read of the profile) is usually 400 to 900 ns.
[[nodiscard]] constexpr Visit memory_read(const Timing& t, std::uint64_t at, std::uint64_t length) {
  return {dma_read_span_at(t, at, length), t.pcie_read + dma_read_span_at(t, at, last_packet(t, length))};
}

// For how long PCIe is busy while the NIC writes L bytes to memory, for a WRITE, or for a SEND whose payload
// is not in its completion queue entry; and the latency of the last packet, of at most M bytes (the MTU).
// t_write is the latency of a DMA write:
//   busy dma_write_span(L), latency t_write + dma_write_span(min(L, M))
// Source: Kalia et al. 2016, section 2.1 and Figure 6; t_write: pcie.write of the profile.
[[nodiscard]] constexpr Visit memory_write(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), t.pcie_write + dma_write_span(t, last_packet(t, length))};
}

// For how long PCIe is busy while the NIC writes a completion queue entry of c bytes with a payload of L
// bytes in it, and the latency of this write; t_write is the latency of a DMA write:
//   busy dma_write_span(c + L), latency t_write + dma_write_span(c + L)
// Source: Kalia et al. 2016, sections 3.2 (inline RECV) and 5.2.2 (row V173 of `loch calibrate`).
[[nodiscard]] constexpr Visit write_in_completion(const Timing& t, std::uint64_t length) {
  const Picos entry = dma_write_span(t, t.completion_bytes + length);
  return {entry, entry + t.pcie_write};
}

// For how long an atomic holds its lock in the NIC, and its latency, if its region has E bytes and the
// processor's last-level cache C: t_hold is the time of a PCIe read and a PCIe write of a cached word,
// t_memory that of a word in memory. C = 0: nothing is known of the cache:
//   busy t, latency t, t = t_memory if E > C > 0, else t_hold
// Source: Kalia et al. 2016, sections 3.4 and 5.4 (row V178 of `loch calibrate`): t_hold is the reciprocal of
// the rate of atomics on one counter; t_memory, on a ConnectX-3, that of the rate where the registered memory
// is larger than the processor's cache (rdma_bench's read-mes, experiments/hardware/data).
[[nodiscard]] constexpr Visit atomic_update(const Timing& t, std::uint64_t region_bytes) {
  const bool is_cached = t.cached_bytes == 0 || region_bytes <= t.cached_bytes;
  const Picos hold = is_cached ? t.atomic_hold : t.atomic_hold_memory;
  return {hold, hold};
}

// When an atomic is taken up that reaches the place for atomics in the NIC at the time `reached`, if the
// first of the places is free at the time `free`. Until then everything that arrived behind it waits:
//   max(reached, free)
// Source: Kalia et al. 2016, section 5.4: a ConnectX-3 executes one atomic after the other (one place);
// Connect-IB is bound by "buffering and computation", and 52 M atomics a second of 446 ns each are 23 under
// way (row V178 of `loch calibrate`, Little's law); section 3.4: atomics contend with other verbs. That a
// NIC takes up messages in their order of arrival, so that those behind wait too, is assumed.
[[nodiscard]] constexpr Picos atomic_taken_up(Picos reached, Picos free) { return std::max(reached, free); }

// Number of the lock that an atomic on the word at `offset` takes, of `locks` locks (a power of two):
//   offset mod locks
// Source: Kalia et al. 2016, section 5.4: 4096 buckets by the last 12 bits of the address on Connect-IB, one
// on ConnectX-3 (row V178 of `loch calibrate`).
[[nodiscard]] constexpr std::uint64_t atomic_lock(std::uint64_t offset, std::uint64_t locks) {
  return offset & (locks - 1);
}

// ---- Completion -----------------------------------------------------------------------------------

// For how long PCIe is busy while the NIC writes a READ's L bytes to the requester's memory, and the latency
// of the last packet, of at most M bytes (the MTU), without t_write, which the completion after it adds:
//   busy dma_write_span(L), latency dma_write_span(min(L, M))
// Source: Kalia et al. 2016, section 2.1; the bytes go over the bus while they come from the link
// (last_packet).
[[nodiscard]] constexpr Visit data_landing(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), dma_write_span(t, last_packet(t, length))};
}

// Time in nanoseconds at which a worker has handled a completion, or a change of a word that it watches, that
// arrives now. The worker notices the arrival after t_poll, or at the end of its present work if that is
// later, and takes t_completion to handle it:
//   max(now + t_poll, end of its work) + t_completion
// Source: cpu.poll of the profile: half a polling loop and a cache miss on the line that the NIC wrote;
// cpu.completion: cycles to read and acknowledge a completion.
[[nodiscard]] constexpr Nanos handled_at(const Timing& t, Nanos now, Nanos busy_until) {
  return std::max(now + t.poll, busy_until) + t.completion;
}

// ---- Cache lines ----------------------------------------------------------------------------------

// Number of aligned 64-byte lines that `length` bytes at `offset` touch:
//   ⌈(offset mod 64 + length)/64⌉
// Source: a DMA is indivisible only within a cache line (rule 1 of common/fabric/fabric.h).
[[nodiscard]] constexpr std::uint64_t lines_touched(std::uint64_t offset, std::uint64_t length) {
  return (offset % 64 + length + 63) / 64;
}

// Offset in a message of `length` bytes at which its piece i of n begins, if the message goes to memory at
// `offset`, touches lines_touched 64-byte lines there, and is torn between lines:
//   clamp(64 · ⌊lines_touched · i/n⌋ − offset mod 64, 0, length)
// Source: a DMA is indivisible only within a cache line (rule 1 of common/fabric/fabric.h).
[[nodiscard]] constexpr std::uint32_t piece_begin(std::uint64_t offset, std::uint32_t length,
                                                  std::uint64_t piece, std::uint64_t pieces) {
  const std::uint64_t skew = offset % 64;  // bytes of the first line that are not the message's
  const std::uint64_t at = lines_touched(offset, length) * piece / pieces * 64;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(at > skew ? at - skew : 0, length));
}

}  // namespace loch::fabric::sim
