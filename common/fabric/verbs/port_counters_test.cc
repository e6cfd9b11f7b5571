// Tests of reading a port's counters, and a device's driver and NUMA node, from a folder that looks like the
// kernel's.
#include "common/fabric/verbs/port_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace loch::fabric::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PortCounters : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "loch-counters-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    unsetenv("LOCH_RDMA_SYSFS");
    std::filesystem::remove_all(folder_);
  }
  void put(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string folder_;
};

TEST_F(PortCounters, AreReadOfThePortAndOfTheDevice) {
  put("mlx5_0/ports/1/counters/symbol_error", "3\n");
  put("mlx5_0/ports/1/hw_counters/packet_seq_err", "18446744073709551615\n");
  put("mlx5_0/ports/1/hw_counters/lifespan", "10\n");
  put("mlx5_0/ports/2/hw_counters/packet_seq_err", "9\n");
  put("mlx5_0/hw_counters/sq_num_to", "4\n");
  EXPECT_THAT(read_port_counters(folder_, "mlx5_0", 1),
              ElementsAre(Pair("packet_seq_err", 18446744073709551615u), Pair("sq_num_to", 4),
                          Pair("symbol_error", 3)));
}

TEST_F(PortCounters, WhatIsNoNumberIsLeftOut) {
  put("mlx5_0/ports/1/counters/symbol_error", "N/A (no PMA)\n");
  put("mlx5_0/ports/1/counters/link_downed", "12 errors\n");
  put("mlx5_0/ports/1/counters/port_rcv_errors", "");
  put("mlx5_0/ports/1/counters/port_xmit_discards", "7 \n");
  std::filesystem::create_directories(folder_ + "/mlx5_0/ports/1/counters/folder");
  EXPECT_THAT(read_port_counters(folder_, "mlx5_0", 1), ElementsAre(Pair("port_xmit_discards", 7)));
}

TEST_F(PortCounters, ADeviceWithoutFilesHasNone) {
  EXPECT_THAT(read_port_counters(folder_, "mlx5_0", 1), IsEmpty());
  EXPECT_EQ(read_device_place(folder_, "mlx5_0").numa_node, -1);
  EXPECT_EQ(read_device_place(folder_, "mlx5_0").driver, "");
}

TEST_F(PortCounters, ThePlaceIsTheDrivers) {
  put("mlx5_0/device/numa_node", "1\n");
  std::filesystem::create_symlink("../../bus/pci/drivers/mlx5_core", folder_ + "/mlx5_0/device/driver");
  EXPECT_EQ(read_device_place(folder_, "mlx5_0").numa_node, 1);
  EXPECT_EQ(read_device_place(folder_, "mlx5_0").driver, "mlx5_core");
}

TEST_F(PortCounters, TheFolderCanBeAnother) {
  EXPECT_EQ(rdma_folder(), "/sys/class/infiniband");
  ASSERT_EQ(setenv("LOCH_RDMA_SYSFS", folder_.c_str(), 1), 0);
  EXPECT_EQ(rdma_folder(), folder_);
  ASSERT_EQ(setenv("LOCH_RDMA_SYSFS", "", 1), 0);
  EXPECT_EQ(rdma_folder(), "/sys/class/infiniband");
}

}  // namespace
}  // namespace loch::fabric::verbs
