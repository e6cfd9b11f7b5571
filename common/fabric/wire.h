// Bytes on the wire of one work request, header by header (InfiniBand architecture volume 1,
// chapter 9; docs/formats.md has the table).
#pragma once

#include <cstdint>

#include "common/fabric/capabilities.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

struct WireBytes {
  std::uint64_t request = 0;   // bytes from requester to responder
  std::uint64_t response = 0;  // bytes from responder to requester: READ data, atomic reply, ACK
  std::uint32_t request_packets = 1;
  std::uint32_t response_packets = 0;
  [[nodiscard]] std::uint64_t total() const { return request + response; }
};

// Header and checksum bytes of a packet: on InfiniBand LRH 8 + BTH 12 + ICRC 4 + VCRC 2, on RoCE the Ethernet
// equivalents.
[[nodiscard]] constexpr std::uint32_t packet_overhead(LinkFormat format) {
  switch (format) {
    case LinkFormat::infiniband:
      return 26;
    case LinkFormat::roce_v1:
      return 14 + 4 + 40 + 12 + 4;
    case LinkFormat::roce_v2:
      return 14 + 4 + 20 + 8 + 12 + 4;
  }
  return 0;
}

// Bytes on the wire for `length` payload bytes (8 for atomics), in packets of at most `mtu` payload bytes.
[[nodiscard]] constexpr WireBytes wire_bytes(Verb verb, Transport transport, std::uint64_t length,
                                             std::uint32_t mtu, LinkFormat format,
                                             bool has_immediate = false) {
  constexpr std::uint32_t reth = 16, aeth = 4, deth = 8, atomic_eth = 28, atomic_ack_eth = 8, immediate = 4;
  const std::uint64_t base = packet_overhead(format);
  const std::uint32_t n = length <= mtu ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
  const std::uint64_t imm = has_immediate ? immediate : 0;
  WireBytes wire;
  switch (verb) {
    case Verb::read:
      wire.request = base + reth;
      wire.response_packets = n;
      // of the packets of a READ response, only the first and the last have an AETH
      wire.response = length + n * base + (n > 1 ? 2 * aeth : aeth);
      return wire;
    case Verb::cas:
    case Verb::faa:
      wire.request = base + atomic_eth;
      wire.response_packets = 1;
      wire.response = base + aeth + atomic_ack_eth;
      return wire;
    case Verb::write:
      wire.request = length + n * base + reth + imm;
      break;
    case Verb::send:
    case Verb::recv:
      wire.request = length + n * base + imm + (transport == Transport::ud ? n * deth : 0);
      break;
  }
  wire.request_packets = n;
  if (transport == Transport::rc) {
    wire.response_packets = 1;
    wire.response = base + aeth;
  }
  return wire;
}

// Payload bytes that cross the network, as the papers count them. CAS and FAA: 8.
[[nodiscard]] constexpr std::uint64_t payload_bytes(Verb verb, std::uint64_t length) {
  return is_atomic(verb) ? 8 : length;
}

}  // namespace loch::fabric
