// What each stage of a request costs: pure functions of a profile's constants (timing.h) and of the
// request's sizes. requester.cc, switch_port.cc, responder.cc and worker.cc ask them and keep the queues;
// scheduler_costs.h has the same of the cores. docs/simulator.md lists them all, stage by stage.
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
// Using RDMA Efficiently for Key-Value Services (SIGCOMM 2014). V numbers are rows of `./loch calibrate`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/fabric/pcie.h"
#include "common/fabric/sim/timing.h"
#include "common/fabric/wire.h"

namespace loch::fabric::sim {

// A visit to a first-come-first-served server: how long it is taken, so that the next one's turn comes later,
// and how much later than its own turn the request is where it goes. Both in picoseconds.
struct Visit {
  Picos busy = 0;
  Picos latency = 0;
};

// The way of a request through the servers of one stage: while it queues at one it moves up at the next, so
// the longest of its turns counts, and the latencies of all: now + max turn + Σ latency. Source: decision
// 0072.
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

// Time of the direction towards the NIC for what a DMA read of L bytes answers: L/β + ⌈L/C_rc⌉ · (P_c + D)/β
// Source: as pcie_span; P_c of Figure 2a.
[[nodiscard]] constexpr Picos dma_read_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.answer_packet);
}

// Time of one direction for posted writes of L bytes: L/β + ⌈L/C_rc⌉ · (P_r + D)/β
// Source: as pcie_span; P_r of Figure 2a.
[[nodiscard]] constexpr Picos dma_write_span(const Timing& t, std::uint64_t bytes) {
  return pcie_span(t, bytes, t.write_packet);
}

// What is left of a message of L bytes when all but its last packet went over the bus while it was on the
// link: min(L, M) bytes.
// Source: a NIC passes on packet by packet; READs of 16 and 1024 B, alone, in 3 and 4 µs (Pilaf, V124).
[[nodiscard]] constexpr std::uint64_t last_packet(const Timing& t, std::uint64_t length) {
  return std::min(length, t.mtu.value());
}

// A message on a link: (W + n·F)/B with n = ⌈L/M⌉ packets, at least one.
// Source: IEEE 802.3, preamble 8 B and gap 12 B a frame; on InfiniBand F is what V167 leaves. W: wire_bytes
// (InfiniBand architecture, volume 1, chapter 9).
[[nodiscard]] constexpr Picos link_span(const Timing& t, std::uint64_t wire, std::uint64_t payload_bytes) {
  const std::uint64_t mtu = t.mtu.value();
  const std::uint64_t packets = payload_bytes <= mtu ? 1 : t.mtu.quotient(payload_bytes + mtu - 1);
  return static_cast<Picos>(wire + packets * t.framing) * t.link_femtos_byte / 1000;
}

// ---- Posting: the CPU hands work requests to its NIC ----------------------------------------------

// 64-byte lines of a work request: ⌈(h + i)/64⌉, h = 36 bytes, 68 of a datagram; i the payload, if it is
// inlined. A datagram without payload is one line.
// Source: guidelines, Table 1 and section 2.2.2; section 3.2 for the datagram without payload.
[[nodiscard]] constexpr std::uint32_t work_request_lines(Transport transport, std::uint32_t length,
                                                         bool is_inline) {
  return pcie_lines(work_request_bytes(transport, length, is_inline));
}

// The CPU's part of handing over, in nanoseconds, and the time that it takes of the bus.
struct HandOver {
  Nanos cpu = 0;
  Picos bus = 0;
};

// The CPU writes a lone work request of n lines itself: n · t_write_combine of the CPU, n · (64 + P_r + D)/β
// of the bus. Source: guidelines, sections 2.1 (write combining) and 3.1 (WQE-by-MMIO); 5.2.1: β/(64 + P_r)
// lines a second.
[[nodiscard]] constexpr HandOver hand_over_by_mmio(const Timing& t, std::uint32_t lines) {
  return {t.write_combine * lines, t.mmio_line * lines};
}

// One doorbell for any number of work requests: t_doorbell of the CPU, (8 + P_r + D)/β of the bus.
// Source: guidelines, section 3.1 (Doorbell) and appendix A.
[[nodiscard]] constexpr HandOver hand_over_by_doorbell(const Timing& t) {
  return {t.doorbell, t.doorbell_packet};
}

// When the NIC has it, in nanoseconds: max(end of the CPU's work, now + ⌈turn of the bus⌉) + ⌈t_mmio⌉
// Source: a posted write's latency, one way: the range of docs/simulator.md.
[[nodiscard]] constexpr Nanos handed_over_at(const Timing& t, Nanos now, Nanos busy_until, Picos turn) {
  return std::max(busy_until, now + nanos_up(turn)) + nanos_up(t.mmio);
}

// ---- The requester's NIC --------------------------------------------------------------------------

// Gap of the sending side: g(verb), g_ud of a datagram, + (n − 1) · g_line for n lines of work request
// + g_payload if the payload is fetched.
// Source: peak rates of single verbs: HERD, 5.3 (V145), guidelines, Tables 4 and 5 (V167, V168); g_line and
// g_payload are differences between the columns of Table 5.
[[nodiscard]] constexpr Picos requesting_gap(const Timing& t, Verb verb, Transport transport,
                                             std::uint32_t lines, bool fetches_payload) {
  const Picos gap = transport == Transport::ud ? t.request_ud : t.request[gap_of(verb)];
  return gap + (lines - 1) * t.request_line + (fetches_payload ? t.payload : 0);
}

// How long a queue pair's processing unit is still busy with the work request before: max(busy until − now,
// 0). It takes one that has to be fetched every g_queue_pair. Source: guidelines, sections 3.3 (a queue pair
// is bound to a unit) and 5.2.1, Figure 11b (V171).
[[nodiscard]] constexpr Picos unit_wait(Picos busy_until, Picos now) {
  return std::max(busy_until - now, Picos{0});
}

// The NIC fetches a work request of n lines: bus and data dma_read(64·n), latency t_read more.
// Source: guidelines, section 3.1 and appendix A (without n·P_c of the other requests of its batch).
[[nodiscard]] constexpr Visit work_request_fetch(const Timing& t, std::uint32_t lines) {
  const Picos data = dma_read_span(t, std::uint64_t{lines} * pcie_line);
  return {data, data + t.pcie_read};
}

// The NIC fetches a payload of L bytes that is not inlined: bus dma_read(L); the message leaves with its
// first packet, after t_read + dma_read(min(L, M)). Source: guidelines, section 2.2.2 (inlining saves this
// DMA) and 3.2.
[[nodiscard]] constexpr Visit payload_fetch(const Timing& t, std::uint64_t length) {
  return {dma_read_span(t, length), t.pcie_read + dma_read_span(t, last_packet(t, length))};
}

// A context, a page's translation or a kept work request that is not in the NIC's cache: turn + t_read. One
// fetch begins every t_read/n, where the NIC keeps n PCIe reads under way (nic.outstanding_fetches).
// Source: HERD, 5.5 (misses of queue-pair contexts) and guidelines, 5.3.2 (of work requests, V176); that a
// miss is one PCIe read, and how many are under way, is assumed.
[[nodiscard]] constexpr Picos cache_miss(const Timing& t, Picos turn) { return turn + t.pcie_read; }

// The pages, by number, in which `length` bytes (0 as 1) at `offset` of a region lie: ⌊offset/page⌋ to
// ⌊(offset + length − 1)/page⌋
// Source: memory translation table by page; registered memory in pages of nic.page.
struct Pages {
  std::uint64_t first = 0, last = 0;
};
[[nodiscard]] constexpr Pages pages_of(const Timing& t, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t first = t.page.quotient(offset);
  return {first, length == 0 ? first : t.page.quotient(offset + length - 1)};
}

// ---- Wire and switch ------------------------------------------------------------------------------

// When the first bytes of a message that has left its node at `left`, after `span` on the link, are at the
// other node's link, in nanoseconds: ⌈left − span + t_switch + t_cable⌉
// Source: cut-through switching; data sheets of the switches, 5 ns a metre of cable.
[[nodiscard]] constexpr Nanos first_bytes_at(const Timing& t, Picos left, Picos span) {
  return nanos_up(left - span + t.network);
}

// A refusal on the wire: a packet with an acknowledgment header (AETH), overhead + 4 bytes.
// Source: InfiniBand architecture, volume 1, chapter 9.
[[nodiscard]] constexpr std::uint32_t refusal_bytes(LinkFormat format) { return packet_overhead(format) + 4; }

// The switch's buffers hold bytes as the time that they take on the link.
// Of `amount` that leaves at one rate and is gone at `gone`, what is still there: clamp(gone − now, 0,
// amount) Source: IEEE 802.1Qbb and 802.3x, decision 0081: a port's packet memory empties at the link's rate.
[[nodiscard]] constexpr Picos still_waiting(Picos now, Picos gone, Picos amount) {
  return std::clamp(gone - now, Picos{0}, amount);
}

// When `part` of it will have left: min(max(now, gone − amount) + part, max(gone, now))
// Source: as still_waiting.
[[nodiscard]] constexpr Picos part_gone_at(Picos now, Picos gone, Picos amount, Picos part) {
  return std::min(std::max(now, gone - amount) + part, std::max(gone, now));
}

// How much of a message of `span` waits in the switch, where `room` is left, for its turn on the way out:
// min(span, turn, room)
// Source: as still_waiting.
[[nodiscard]] constexpr Picos taken_by_port(Picos span, Picos turn, Picos room) {
  return std::min({span, turn, room});
}

// How long the sender's link is held meanwhile: turn − room where neither the message nor its wait fits, else
// 0. Source: IEEE 802.3x and 802.1Qbb (pause), credits of InfiniBand; decision 0081.
[[nodiscard]] constexpr Picos link_held(Picos span, Picos turn, Picos room) {
  return span > room && turn > room ? turn - room : 0;
}

// ---- The responder's NIC --------------------------------------------------------------------------

// What a message does with a posted receive.
enum class Receives : std::uint8_t { nothing, placed, in_completion };

// Gap of the receiving side:
//   READ                      g(read) + L · g_byte
//   WRITE, atomic             g(verb)
//   takes a receive           g(recv) + (L > 0: g_payload, or g_inline_receive if it travels in the
//   completion)
// Source: HERD, 5.3 (V145) and guidelines, Tables 4 and 5 (V167, V168); g_byte: Pilaf, Table 1 (V123);
// g_inline_receive: guidelines, 5.2.2 (V173); decision 0073.
[[nodiscard]] constexpr Picos responding_gap(const Timing& t, Verb verb, std::uint32_t length,
                                             Receives receives) {
  if (verb == Verb::read)
    return t.respond[gap_read] + static_cast<Picos>(length) * t.respond_femtos_byte / 1000;
  if (receives == Receives::nothing) return t.respond[gap_of(verb)];
  if (length == 0) return t.respond[gap_send];
  return t.respond[gap_send] + (receives == Receives::in_completion ? t.inline_receive : t.payload);
}

// A READ's L bytes out of memory: bus dma_read(L); the response begins with its first packet, after
// t_read + dma_read(min(L, M)).
// Source: guidelines, section 2.1; t_read between 400 and 900 ns (docs/simulator.md).
[[nodiscard]] constexpr Visit memory_read(const Timing& t, std::uint64_t length) {
  return {dma_read_span(t, length), t.pcie_read + dma_read_span(t, last_packet(t, length))};
}

// L bytes into memory, of a WRITE or beside a receive's completion: bus dma_write(L); what is left when the
// last of it is here is t_write + dma_write(min(L, M)).
// Source: guidelines, section 2.1; t_write 250 ns (docs/simulator.md).
[[nodiscard]] constexpr Visit memory_write(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), t.pcie_write + dma_write_span(t, last_packet(t, length))};
}

// A payload of L bytes within the completion queue entry of c bytes: bus dma_write(c + L), latency t_write
// more. Source: guidelines, section 3.2 (inline RECV) and 5.2.2 (V173).
[[nodiscard]] constexpr Visit write_in_completion(const Timing& t, std::uint64_t length) {
  const Picos entry = dma_write_span(t, t.completion_bytes + length);
  return {entry, entry + t.pcie_write};
}

// An atomic: its lock is held for t_hold, a PCIe read and write.
// Source: guidelines, sections 3.4 and 5.4 (V178): the reciprocal of the rate at one address.
[[nodiscard]] constexpr Visit atomic_update(const Timing& t) { return {t.atomic_hold, t.atomic_hold}; }

// The lock of an atomic at `offset`, of `locks` (a power of two): offset mod locks
// Source: guidelines, section 5.4: 4096 buckets by the 12 last bits of the address on Connect-IB, else one.
[[nodiscard]] constexpr std::uint64_t atomic_lock(std::uint64_t offset, std::uint64_t locks) {
  return offset & (locks - 1);
}

// ---- Completion -----------------------------------------------------------------------------------

// A READ's data into the requester's memory: bus dma_write(L), of which dma_write(min(L, M)) is left when the
// last of it came from the link. Its t_write is the completion's.
// Source: as memory_write.
[[nodiscard]] constexpr Visit data_landing(const Timing& t, std::uint64_t length) {
  return {dma_write_span(t, length), dma_write_span(t, last_packet(t, length))};
}

// When a worker that polls has handled what came, in nanoseconds: it sees it when it next looks, and looks at
// nothing while it is busy: max(now + t_poll, end of its work) + t_completion
// Source: cpu.poll of the profile, half a polling loop and a miss to the line that the NIC wrote;
// cpu.completion, cycles that read and acknowledge a completion.
[[nodiscard]] constexpr Nanos handled_at(const Timing& t, Nanos now, Nanos busy_until) {
  return std::max(now + t.poll, busy_until) + t.completion;
}

// ---- Cache lines ----------------------------------------------------------------------------------

// Aligned 64-byte lines that `length` bytes at `offset` touch: ⌈(offset mod 64 + length)/64⌉
// Source: a DMA is whole by the line, not beyond (guarantee A5 of docs/protocols/nessie.md).
[[nodiscard]] constexpr std::uint64_t lines_touched(std::uint64_t offset, std::uint64_t length) {
  return (offset % 64 + length + 63) / 64;
}

// Where piece `piece` of `pieces` begins in a message of `length` bytes for `offset` that is torn between
// lines: 64·⌊lines · piece/pieces⌋ − offset mod 64, within 0 to `length`.
// Source: as lines_touched.
[[nodiscard]] constexpr std::uint32_t piece_begin(std::uint64_t offset, std::uint32_t length,
                                                  std::uint64_t piece, std::uint64_t pieces) {
  const std::uint64_t skew = offset % 64;  // bytes of the first line that are not the message's
  const std::uint64_t at = lines_touched(offset, length) * piece / pieces * 64;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(at > skew ? at - skew : 0, length));
}

}  // namespace loch::fabric::sim
