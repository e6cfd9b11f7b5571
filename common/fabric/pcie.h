// Bytes on PCIe between a CPU and its NIC, after the design guidelines of Kalia et al. (USENIX ATC 2016,
// sections 2.1, 2.2.2, 3.1 and appendix A): how large a work request is, and what it costs to hand it over.
//
//   by MMIO       the CPU writes the work request itself, a 64-byte line a packet
//   by doorbell   the CPU writes 8 bytes; the NIC fetches the requests by DMA, up to 128 bytes a packet
#pragma once

#include <cstdint>

#include "common/fabric/fabric.h"

namespace loch::fabric {

// Bytes of a cache line: work requests are padded to whole lines, and a write-combined MMIO write carries
// one.
constexpr std::uint32_t pcie_line = 64;
constexpr std::uint32_t doorbell_bytes = 8;       // bytes of the MMIO write that rings the doorbell
constexpr std::uint32_t recv_request_bytes = 16;  // bytes of a RECV work request, on every transport

// Sizes of PCIe packet headers, and the data bytes of one completion packet of a PCIe read.
struct PcieHeaders {
  // header bytes of a PCIe write, or of a PCIe read's request (P_r in Kalia et al. 2016)
  std::uint32_t request = 26;
  // header bytes of a packet that answers a PCIe read (P_c in Kalia et al. 2016)
  std::uint32_t completion = 22;
  // data bytes of one packet that answers a PCIe read (C_rc in Kalia et al. 2016)
  std::uint32_t packet = 128;
};
constexpr PcieHeaders pcie_2{24, 20, 128}, pcie_3{26, 22, 128};

// Bytes of a work request in the NIC's format: a header of 36 bytes (68 for a datagram) and the inlined
// payload. A datagram without a payload fits into one 64-byte line.
[[nodiscard]] constexpr std::uint32_t work_request_bytes(Transport transport, std::uint32_t length,
                                                         bool is_inline) {
  if (transport == Transport::ud && length == 0) return pcie_line;
  return (transport == Transport::ud ? 68u : 36u) + (is_inline ? length : 0);
}
[[nodiscard]] constexpr std::uint32_t pcie_lines(std::uint32_t bytes) {
  return (bytes + pcie_line - 1) / pcie_line;
}

// PCIe bytes towards the NIC when the CPU writes `requests` work requests of `bytes` bytes each by MMIO.
[[nodiscard]] constexpr std::uint64_t mmio_bus_bytes(std::uint64_t requests, std::uint32_t bytes,
                                                     const PcieHeaders& headers) {
  return requests * pcie_lines(bytes) * (pcie_line + headers.request);
}
// PCIe bytes when one doorbell announces all requests and the NIC fetches them by DMA, each as whole 64-byte
// lines of the send queue.
[[nodiscard]] constexpr std::uint64_t doorbell_bus_bytes(std::uint64_t requests, std::uint32_t bytes,
                                                         const PcieHeaders& headers) {
  const std::uint64_t slot = std::uint64_t{pcie_lines(bytes)} * pcie_line;
  const std::uint64_t packets = (slot + headers.packet - 1) / headers.packet;
  return doorbell_bytes + headers.request + requests * (slot + packets * headers.completion);
}

static_assert(mmio_bus_bytes(10, 65, pcie_3) == 1800);      // the example of Kalia et al. 2016, appendix A
static_assert(doorbell_bus_bytes(10, 65, pcie_3) == 1534);  // the example of Kalia et al. 2016, appendix A

}  // namespace loch::fabric
