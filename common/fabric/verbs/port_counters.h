// Reads what the kernel tells of an RDMA device in files: counters of a port, driver, NUMA node. Control
// path.
#pragma once

#include <cstdint>
#include <string>

#include "common/fabric/health.h"

namespace loch::fabric::verbs {

// The folder of RDMA devices: /sys/class/infiniband, or what the environment variable LOCH_RDMA_SYSFS says.
[[nodiscard]] std::string rdma_folder();

// Returns the counters of a port and, where the driver keeps them for the device alone (mlx4), of the
// device: the files in DEVICE/ports/PORT/counters, DEVICE/ports/PORT/hw_counters and DEVICE/hw_counters that
// hold a whole number. Empty if none can be read.
[[nodiscard]] CounterValues read_port_counters(const std::string& folder, const std::string& device,
                                               std::uint32_t port);

struct DevicePlace {
  std::string driver;  // name of the kernel's driver; empty if unknown
  int numa_node = -1;  // NUMA node of the device; -1 if unknown
};
[[nodiscard]] DevicePlace read_device_place(const std::string& folder, const std::string& device);

}  // namespace loch::fabric::verbs
