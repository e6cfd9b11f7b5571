// What each stage of a request costs: pure functions of a profile's constants (timing.h) and of the
// request's sizes. requester.cc, switch_port.cc, responder.cc and worker.cc call them and keep the queues;
// scheduler_costs.h has the functions for the cores. The table of them in docs/simulator.md is generated from
// these comments: indented lines are formulas, the text after "Source:" is the source (tests/docs/stages.py).
//
// Times are picoseconds (Picos), or nanoseconds (Nanos) for the CPU; sizes are bytes. Femtoseconds are
// converted to picoseconds by integer division. In the formulas
//   L, W      bytes of payload; bytes of a message on the wire, headers included (wire.h)
//   ⌈x⌉, ⌊x⌋  rounded up, rounded down
//   g         a gap: the least time between two requests of a kind at one unit, as in LogGP (Alexandrov et
//   al., 1995);
//             the reciprocal of a measured peak rate
//   B, β      bandwidth of one direction of the link, of PCIe
//   P_r, P_c  header bytes of a PCIe packet that writes, and of one that answers a read; C_rc data bytes of
//             one packet; D bytes of acknowledgments and credits (pcie.link_layer)
//   M, F      MTU; bytes that a packet takes on the link beside its own (link.framing)
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

// A request's visit to a first-come-first-served server, in picoseconds: how long the server is busy with the
// request, and the latency from the request's turn until it leaves the server.
struct Visit {
  Picos busy = 0;
  Picos latency = 0;
};

// The delays of a request at the servers of one stage, in picoseconds. While a request queues at one server
// it moves up in the queue of the next, so only its longest wait for a server counts, but the latencies of
// all servers: the request leaves the stage at now + longest wait + Σ latency. Source: decision 0072.
struct Passage {
  Picos now = 0;
  Picos turn = 0;   // longest wait for a server, from now
  Picos delay = 0;  // sum of the latencies of the servers
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

// PCIe time of a DMA read of L bytes, in the direction towards the NIC:
//   L/β + ⌈L/C_rc⌉ · (P_c + D)/β
// Source: guidelines, section 2.1 and Figure 2a; appendix A for C_rc and the link layer.
[[nodiscard]] constexpr Picos dma_read_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.answer_packet);
}

// PCIe time of posted writes of L bytes, in the direction of the writes:
//   L/β + ⌈L/C_rc⌉ · (P_r + D)/β
// Source: guidelines, section 2.1 and Figure 2a; assumed: writes are cut into packets of C_rc bytes too.
[[nodiscard]] constexpr Picos dma_write_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.write_packet);
}

// Bytes of a message of L bytes that still have to cross PCIe when the whole message has come over the link:
// the last packet, since the packets before it crossed meanwhile:
//   min(L, M)
// Source: a NIC passes on packet by packet; READs of 16 and 1024 B, alone, in 3 and 4 µs (Pilaf 2013, V124).
[[nodiscard]] constexpr std::uint64_t last_packet(const Timing& t, std::uint64_t length) {
  return std::min(length, t.mtu.value());
}

// Time of a message on a link, in n = ⌈L/M⌉ packets, at least one:
//   (W + n · F)/B
// Source: IEEE 802.3, preamble 8 B and gap 12 B a frame; on InfiniBand F is derived from V167. W is
// wire_bytes (InfiniBand architecture, volume 1, chapter 9).
[[nodiscard]] constexpr Picos link_span(const Timing& t, std::uint64_t wire, std::uint64_t payload_bytes) {
  const std::uint64_t mtu = t.mtu.value();
  const std::uint64_t packets = payload_bytes <= mtu ? 1 : t.mtu.quotient(payload_bytes + mtu - 1);
  return static_cast<Picos>(wire + packets * t.framing) * t.link_femtos_byte / 1000;
}

// ---- Posting: the CPU hands work requests to its NIC ----------------------------------------------

// Number of 64-byte lines of a work request with i inlined bytes; its header has h = 36 bytes, or 68 for a
// datagram:
//   ⌈(h + i)/64⌉; 1 for a datagram without payload
// Source: guidelines, Table 1 and section 2.2.2; Figure 5 for the datagram without payload.
[[nodiscard]] constexpr std::uint32_t work_request_lines(Transport transport, std::uint32_t length,
                                                         bool is_inline) {
  return pcie_lines(work_request_bytes(transport, length, is_inline));
}

// Cost of handing work requests to the NIC: CPU time in nanoseconds, and PCIe time in picoseconds.
struct HandOver {
  Nanos cpu = 0;
  Picos bus = 0;
};

// Handing over a single work request of n lines by MMIO: the CPU writes the lines to the NIC itself:
//   cpu n · t_write_combine, bus n · (64 + P_r + D)/β
// Source: guidelines, sections 2.1 (write combining) and 3.1 (WQE-by-MMIO); 5.2.1: β/(64 + P_r) lines a
// second (V170).
[[nodiscard]] constexpr HandOver hand_over_by_mmio(const Timing& t, std::uint32_t lines) {
  return {t.write_combine * lines, t.mmio_line * lines};
}

// Ringing one doorbell for any number of work requests:
//   cpu t_doorbell, bus (8 + P_r + D)/β
// Source: guidelines, section 3.1 (Doorbell) and appendix A.
[[nodiscard]] constexpr HandOver hand_over_by_doorbell(const Timing& t) {
  return {t.doorbell, t.doorbell_packet};
}

// Time in nanoseconds at which the NIC has the work request or the doorbell; the PCIe bus is free `turn` from
// now:
//   max(end of the CPU's work, now + ⌈turn⌉) + ⌈t_mmio⌉
// Source: the latency of a posted write, one way: pcie.mmio of the profile.
[[nodiscard]] constexpr Nanos handed_over_at(const Timing& t, Nanos now, Nanos busy_until, Picos turn) {
  return std::max(busy_until, now + nanos_up(turn)) + nanos_up(t.mmio);
}

// ---- The requester's NIC --------------------------------------------------------------------------

// Gap of the requester's side of the NIC for a work request of n lines; g_ud is the gap of datagrams:
//   (g_verb or g_ud) + (n − 1) · g_line + (the payload is fetched: g_payload)
// Source: HERD, 5.3 (V145) and guidelines, Tables 4 and 5 (V167, V168): peak rates of single verbs; g_line
// and g_payload are differences between the columns of Table 5.
[[nodiscard]] constexpr Picos requesting_gap(const Timing& t, Verb verb, Transport transport,
                                             std::uint32_t lines, bool fetches_payload) {
  const Picos gap = transport == Transport::ud ? t.request_ud : t.request[gap_of(verb)];
  return gap + (lines - 1) * t.request_line + (fetches_payload ? t.payload : 0);
}

// Gap that a READ of L bytes has beyond a READ of one segment of s bytes, once at the requester's NIC and
// once at the responder's; s = 0 is without limit:
//   (⌈L/s⌉ − 1) · g_segment
// Source: rc-swarm, sizes: a ConnectX-3 takes 41 ns more for a READ of 264 than of 232 bytes, asked and
// answered (experiments/hardware/data); that either side takes half of it is assumed.
[[nodiscard]] constexpr Picos segments_gap(const Timing& t, Verb verb, std::uint32_t length) {
  if (verb != Verb::read || t.segment_bytes == 0 || length == 0) return 0;
  return (length - 1) / t.segment_bytes * t.segment;
}

// How long the unit of a NIC that transmits both requests and the data that answer READs is busy with a
// message of this gap and of `span` on the link:
//   max(g, span)
// Source: rc-swarm: a Connect-IB that asks and answers at once takes g_request + max(g_respond, span) a READ,
// 19.6 ns at 8 bytes and 43.9 at 392 (measured: 19.5 and 43.5).
[[nodiscard]] constexpr Picos transmit_hold(Picos gap, Picos span) { return std::max(gap, span); }

// How long one of n units that transmit is busy with a message that would take all of them `gap`:
//   n · gap
// Source: rc-swarm, windows: below the peak rate of a Connect-IB, READs wait for each other some eight times
// as long as one takes (experiments/hardware/data).
[[nodiscard]] constexpr Picos unit_span(const Timing& t, Picos gap) { return t.transmit_units * gap; }

// Number of a node's end of the connection of worker w with the worker of the same number at another node, on
// lane l, of N nodes; the nodes before `other`, the own one not counted, are a:
//   w · (N − 1) + a + l
// Source: queue pairs are numbered as they are made, one worker's after the other's.
[[nodiscard]] constexpr std::uint32_t connection_number(std::uint32_t worker, NodeId own, NodeId other,
                                                        std::uint32_t lane, std::uint32_t nodes) {
  const std::uint32_t before = other > own ? other - 1u : other;
  return worker * (nodes - 1) + before + lane;
}

// Number of the unit, of n, to which queue pair k of a node is bound:
//   k mod n
// Source: guidelines, sections 3.3 (a queue pair is bound to a unit) and 5.2.1; that they are dealt out in
// turn is assumed.
[[nodiscard]] constexpr std::uint32_t unit_of(const Timing& t, std::uint32_t queue_pair) {
  return queue_pair % t.transmit_units;
}

// How long a queue pair's processing unit is still busy with the work request that it fetched before this
// one; the unit takes one every g_queue_pair:
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

// Latency of a miss in the NIC's cache of contexts, page translations or work requests. The NIC can have n
// PCIe reads under way (nic.outstanding_fetches), so it begins a fetch every t_read/n; the fetch of this miss
// begins `turn` from now:
//   turn + t_read
// Source: HERD, 5.5 (contexts) and guidelines, 5.3.2 (work requests, V176); that a miss is one PCIe read, and
// how many are under way, is assumed.
[[nodiscard]] constexpr Picos cache_miss(const Timing& t, Picos turn) { return turn + t.pcie_read; }

// How long the unit that transmits stands still for the context of a request's queue pair, at the requester's
// NIC, and of a READ's or an atomic's, at the responder's:
//   (the context is not in the NIC's cache: t_context)
// Source: rc-swarm, queue pairs: a READ asked and answered takes 0.8 µs more on a ConnectX-3, and some 12 ns
// on a Connect-IB, when hardly a context is cached (experiments/hardware/data). That READs through cached
// contexts wait too follows from rates that stay even; that no arriving WRITE or SEND does is assumed.
[[nodiscard]] constexpr Picos context_stall(const Timing& t, bool is_miss) {
  return is_miss ? t.context_stall : 0;
}

// The first and the last page that a buffer touches, both included.
struct Pages {
  std::uint64_t first = 0, last = 0;
};

// Numbers of the pages in which L bytes at `offset` of a region lie; 0 bytes count as 1 byte:
//   ⌊offset/page⌋ to ⌊(offset + L − 1)/page⌋
// Source: a NIC's translations are by page: nic.page of the profile.
[[nodiscard]] constexpr Pages pages_of(const Timing& t, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t first = t.page.quotient(offset);
  return {first, length == 0 ? first : t.page.quotient(offset + length - 1)};
}

// ---- Wire and switch ------------------------------------------------------------------------------

// Time in nanoseconds at which the first bytes of a message reach the other node's link, if its last bytes
// leave its own node's link at `left` after `span` on that link:
//   ⌈left − span + t_switch + t_cable⌉
// Source: cut-through switches; their data sheets, 5 ns a metre of cable.
[[nodiscard]] constexpr Nanos first_bytes_at(const Timing& t, Picos left, Picos span) {
  return nanos_up(left - span + t.network);
}

// Bytes on the wire of a refusal (NAK), which is an acknowledgment with its header:
//   packet_overhead + 4
// Source: InfiniBand architecture, volume 1, chapter 9 (AETH).
[[nodiscard]] constexpr std::uint32_t refusal_bytes(LinkFormat format) { return packet_overhead(format) + 4; }

// Bytes in a switch's buffer are counted as their time on the link. How much of `amount`, which leaves
// without a break and has left completely at `gone`, is in the buffer now:
//   clamp(gone − now, 0, amount)
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (decision 0081).
[[nodiscard]] constexpr Picos still_waiting(Picos now, Picos gone, Picos amount) {
  return std::clamp(gone - now, Picos{0}, amount);
}

// Time at which `part` of an `amount` in a switch's buffer will have left, if all of it has left at `gone`:
//   min(max(now, gone − amount) + part, max(now, gone))
// Source: IEEE 802.1Qbb and 802.3x: a port's memory is emptied at the rate of its link (decision 0081).
[[nodiscard]] constexpr Picos part_gone_at(Picos now, Picos gone, Picos amount, Picos part) {
  return std::min(std::max(now, gone - amount) + part, std::max(gone, now));
}

// How much of a message of `span` waits in the switch's buffer for its turn at the output port, if the buffer
// has `room` left:
//   min(span, turn, room)
// Source: IEEE 802.1Qbb and 802.3x (decision 0081).
[[nodiscard]] constexpr Picos taken_by_port(Picos span, Picos turn, Picos room) {
  return std::min({span, turn, room});
}

// How long the switch pauses the sender's link while a message of `span` waits for its turn at the output
// port, if the buffer has `room` left:
//   turn − room if span > room and turn > room, else 0
// Source: IEEE 802.1Qbb and 802.3x (pause), credits of InfiniBand (decision 0081).
[[nodiscard]] constexpr Picos link_held(Picos span, Picos turn, Picos room) {
  return span > room && turn > room ? turn - room : 0;
}

// ---- The responder's NIC --------------------------------------------------------------------------

// What a message does with a posted receive buffer: nothing, place its payload there, or carry its payload in
// the completion queue entry.
enum class Receives : std::uint8_t { nothing, placed, in_completion };

// Gap of the responder's side of the NIC for a request, by whether it takes a posted receive buffer:
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

// The NIC reads the L bytes of a READ from memory; the response leaves with its first packet:
//   busy dma_read_span(L), latency t_read + dma_read_span(min(L, M))
// Source: guidelines, section 2.1; t_read: 400 to 900 ns are usual, pcie.read of the profile.
[[nodiscard]] constexpr Visit memory_read(const Timing& t, std::uint64_t length) {
  return {dma_read_span(t, length), t.pcie_read + dma_read_span(t, last_packet(t, length))};
}

// The NIC writes L bytes to memory, for a WRITE, or for a SEND whose payload is not in its completion queue
// entry:
//   busy dma_write_span(L), latency t_write + dma_write_span(min(L, M))
// Source: guidelines, section 2.1 and Figure 6; t_write: pcie.write of the profile.
[[nodiscard]] constexpr Visit memory_write(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), t.pcie_write + dma_write_span(t, last_packet(t, length))};
}

// The NIC writes a payload of L bytes within the completion queue entry of c bytes:
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

// Number of the lock that an atomic at `offset` takes, of `locks` locks (a power of two):
//   offset mod locks
// Source: guidelines, 5.4: 4096 buckets by the last 12 bits of the address on Connect-IB, one on ConnectX-3
// (V178).
[[nodiscard]] constexpr std::uint64_t atomic_lock(std::uint64_t offset, std::uint64_t locks) {
  return offset & (locks - 1);
}

// ---- Completion -----------------------------------------------------------------------------------

// The NIC writes a READ's L bytes to the requester's memory; the completion that follows them adds t_write:
//   busy dma_write_span(L), latency dma_write_span(min(L, M))
// Source: guidelines, section 2.1; the bytes go over the bus while they come from the link (last_packet).
[[nodiscard]] constexpr Visit data_landing(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), dma_write_span(t, last_packet(t, length))};
}

// Time in nanoseconds at which a polling worker has handled a completion or a changed word that arrives now;
// a busy worker does not poll:
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

// Offset in a message of `length` bytes at which its piece i of n begins, if the message goes to memory at
// `offset` and is torn between 64-byte lines:
//   clamp(64 · ⌊lines_touched · i/n⌋ − offset mod 64, 0, length)
// Source: a DMA is whole by the cache line, not beyond: rule 1 of common/fabric/fabric.h.
[[nodiscard]] constexpr std::uint32_t piece_begin(std::uint64_t offset, std::uint32_t length,
                                                  std::uint64_t piece, std::uint64_t pieces) {
  const std::uint64_t skew = offset % 64;  // bytes of the first line that are not the message's
  const std::uint64_t at = lines_touched(offset, length) * piece / pieces * 64;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(at > skew ? at - skew : 0, length));
}

}  // namespace loch::fabric::sim
