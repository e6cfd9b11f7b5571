// Tests that the NUMA node of a device is read from sysfs.
#include "common/fabric/verbs/locality.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

namespace loch::fabric::verbs {
namespace {

class LocalityTest : public testing::Test {
 protected:
  LocalityTest() {
    std::string name = testing::TempDir() + "locality.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~LocalityTest() override { std::filesystem::remove_all(folder_); }
  void says(const std::string& device, const std::string& text) {
    std::filesystem::create_directories(folder_ / device / "device");
    std::ofstream(folder_ / device / "device" / "numa_node") << text;
  }
  std::filesystem::path folder_;
};

TEST_F(LocalityTest, IsTheNumaNodeThatTheKernelSays) {
  says("mlx5_0", "1\n");
  says("mlx5_1", "-1\n");
  says("mlx5_2", "none\n");
  EXPECT_EQ(locality_of("mlx5_0", folder_).numa_node, 1U);
  EXPECT_EQ(locality_of("mlx5_1", folder_).numa_node, std::nullopt);
  EXPECT_EQ(locality_of("mlx5_2", folder_).numa_node, std::nullopt);
  EXPECT_EQ(locality_of("mlx5_3", folder_).numa_node, std::nullopt);
}

TEST_F(LocalityTest, SoftwareDevicesAreKnownByTheirDescription) {
  EXPECT_TRUE(locality_of("rxe0 (Soft-RoCE)", folder_).is_software);
  EXPECT_EQ(locality_of("rxe0 (Soft-RoCE)", folder_).numa_node, std::nullopt);
  EXPECT_FALSE(locality_of("mlx5_0", folder_).is_software);
}

}  // namespace
}  // namespace loch::fabric::verbs
