// Opens a process's device together with the other processes of the run: they agree on a network before, and
// on what all of their devices can do afterwards. Control path.
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
  std::unique_ptr<Device> device;
  std::vector<NodeDevice> devices;  // devices of all live processes, by rank
  Capabilities agreed;              // capabilities that all devices have
};

// Opens this process's device. A process that was restarted chooses alone, because the others are in the
// middle of their run.
[[nodiscard]] Result<Opened> open_together(const VerbsConfig& config);

// Returns the capabilities that all devices have, and assumes the order of bytes if the user says so. At
// least one device is required.
[[nodiscard]] Capabilities agree(const std::vector<NodeDevice>& devices, bool assumes_order);

// Returns the traffic class of packets. In this order: the class that was asked for; the administrator's,
// from the text of /sys/class/infiniband/DEVICE/tc/PORT/traffic_class (`administered`); on RoCE v2 the class
// that switches are usually configured to keep lossless (DSCP 26, as in UCX); else 0.
[[nodiscard]] std::uint8_t choose_traffic_class(std::optional<std::uint8_t> asked,
                                                std::string_view administered, LinkFormat link,
                                                bool is_software);

}  // namespace loch::fabric::verbs
