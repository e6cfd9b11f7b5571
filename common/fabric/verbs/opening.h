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
  std::vector<NodeDevice> devices;  // of all processes that are there, by rank
  Capabilities agreed;              // the least of what they have
};

// A process that was started again opens a device by itself: the others are in the midst of their run.
[[nodiscard]] Result<Opened> open_together(const VerbsConfig& config);

// What all of them have in common, with what the user says of their order. Not of none.
[[nodiscard]] Capabilities agree(const std::vector<NodeDevice>& devices, bool assumes_order);

// The traffic class for packets: what was asked for, else the administrator's (`administered`, the text of
// /sys/class/infiniband/DEVICE/tc/PORT/traffic_class), else on RoCE v2 that of the class which switches are
// usually set to keep lossless (DSCP 26, as UCX has it), else 0.
[[nodiscard]] std::uint8_t choose_traffic_class(std::optional<std::uint8_t> asked,
                                                std::string_view administered, LinkFormat link,
                                                bool is_software);

}  // namespace loch::fabric::verbs
