#include "common/fabric/wire.h"

namespace loch::fabric {
namespace {
constexpr std::uint32_t reth = 16, aeth = 4, deth = 8, atomic_eth = 28, atomic_ack_eth = 8, immediate = 4;

std::uint32_t packets(std::uint64_t length, std::uint32_t mtu) {
  return length <= mtu ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}
}  // namespace

WireBytes wire_bytes(Verb verb, Transport transport, std::uint64_t length, std::uint32_t mtu,
                     LinkFormat format, bool has_immediate) {
  const std::uint64_t base = packet_overhead(format);
  const std::uint32_t n = packets(length, mtu);
  const std::uint64_t imm = has_immediate ? immediate : 0;
  WireBytes wire;
  switch (verb) {
    case Verb::read:
      wire.request = base + reth;
      wire.response_packets = n;
      wire.response = length + n * base + (n > 1 ? 2 * aeth : aeth);  // first and last carry an AETH
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

}  // namespace loch::fabric
