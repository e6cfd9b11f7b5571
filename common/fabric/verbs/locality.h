// Finds out to which NUMA node of this machine an RDMA device is attached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace loch::fabric::verbs {

struct Locality {
  bool is_software = false;                // the device is Soft-RoCE: this machine's cores move its packets
  std::optional<std::uint32_t> numa_node;  // empty: the kernel does not say
};

// `device` begins with the device's name, as Capabilities::device does. `devices` is the folder in which the
// kernel describes RDMA devices.
[[nodiscard]] Locality locality_of(std::string_view device,
                                   const std::filesystem::path& devices = "/sys/class/infiniband");

}  // namespace loch::fabric::verbs
