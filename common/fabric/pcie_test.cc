// Tests the bytes on PCIe against the example of the design guidelines of Kalia et al. (USENIX ATC 2016).
#include "common/fabric/pcie.h"

#include <gtest/gtest.h>

namespace loch::fabric {
namespace {

TEST(Pcie, AWorkRequestIsItsHeaderAndWhatIsInlined) {
  EXPECT_EQ(work_request_bytes(Transport::rc, 1024, false), 36u);
  EXPECT_EQ(work_request_bytes(Transport::uc, 28, true), 64u);
  EXPECT_EQ(work_request_bytes(Transport::ud, 60, true), 128u);
  // Kalia et al. 2016, section 5.3.2: inlined WRITEs over 28 bytes take two 64-byte lines; section 5.2.1: two
  // lines hold a datagram of at most 60 bytes.
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::uc, 28, true)), 1u);
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::uc, 29, true)), 2u);
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::ud, 60, true)), 2u);
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::ud, 61, true)), 3u);
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::ud, 1, true)), 2u);
  EXPECT_EQ(pcie_lines(work_request_bytes(Transport::ud, 0, true)), 1u);
}

TEST(Pcie, TheExampleOfTheGuidelines) {
  EXPECT_EQ(mmio_bus_bytes(10, 65, pcie_3), 1800u);
  EXPECT_EQ(doorbell_bus_bytes(10, 65, pcie_3), 1534u);
}

TEST(Pcie, ALoneRequestIsCheaperByMmioAndABatchByDoorbell) {
  EXPECT_LT(mmio_bus_bytes(1, 64, pcie_3), doorbell_bus_bytes(1, 64, pcie_3));
  for (const std::uint32_t bytes : {65u, 128u, 192u, 256u}) {
    EXPECT_GT(mmio_bus_bytes(16, bytes, pcie_3), doorbell_bus_bytes(16, bytes, pcie_3)) << bytes;
    EXPECT_GT(mmio_bus_bytes(16, bytes, pcie_2), doorbell_bus_bytes(16, bytes, pcie_2)) << bytes;
  }
}

TEST(Pcie, EveryPacketHasItsHeader) {
  EXPECT_EQ(mmio_bus_bytes(1, 1, pcie_3), 90u);
  EXPECT_EQ(mmio_bus_bytes(3, 129, pcie_3), 3u * 3 * 90);
  EXPECT_EQ(doorbell_bus_bytes(1, 64, pcie_3), 34u + 64 + 22);
  EXPECT_EQ(doorbell_bus_bytes(2, 129, pcie_3), 34u + 2 * (192 + 2 * 22));
}

}  // namespace
}  // namespace loch::fabric
