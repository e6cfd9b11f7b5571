// Where a device is attached to this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace loch::fabric::verbs {

struct Locality {
  bool is_software = false;                // Soft-RoCE, for which the cores of this machine move the packets
  std::optional<std::uint32_t> numa_node;  // empty: the kernel does not say
};

// `device` is Capabilities::device of this process's device. `devices` is the kernel's folder of RDMA
// devices.
[[nodiscard]] Locality locality_of(std::string_view device,
                                   const std::filesystem::path& devices = "/sys/class/infiniband");

}  // namespace loch::fabric::verbs
