// Opens a process's devices in agreement with the other processes of the run: before, all choose a common
// network for each rail; afterwards, they determine the capabilities that all their devices have. Control
// path.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::fabric::verbs {

struct Opened {
  std::vector<std::unique_ptr<Device>> rails;  // this process's devices, by rail
  std::vector<NodeDevice> devices;             // devices of all live processes, by rail, then by rank
  Capabilities agreed;                         // capabilities that all devices have
};

// Opens this process's devices. A restarted process chooses its devices without the other processes, because
// they are in the middle of their run.
[[nodiscard]] Result<Opened> open_together(const VerbsConfig& config);

// Returns the capabilities that all devices have. If `assumes_order` is set, in-order placement, in-order
// READs and untorn blocks of 64 bytes are assumed even if the devices do not report them. At least one device
// is required.
[[nodiscard]] Capabilities agree(const std::vector<NodeDevice>& devices, bool assumes_order);

// Returns the traffic class of the packets that the device sends: `asked` if it is set; else the class that
// the administrator has set, which `administered`, the text of
// /sys/class/infiniband/DEVICE/tc/PORT/traffic_class, names; else, on RoCE v2 with a hardware NIC, the class
// that switches are usually configured to keep lossless (DSCP 26, as in UCX); else 0.
[[nodiscard]] std::uint8_t choose_traffic_class(std::optional<std::uint8_t> asked,
                                                std::string_view administered, LinkFormat link,
                                                bool is_software);

}  // namespace loch::fabric::verbs
