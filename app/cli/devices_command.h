// The command `loch devices`: the RDMA devices of this machine as the verbs fabric sees them.
#pragma once

#include <string>
#include <vector>

#include "common/settings/command.h"

namespace loch::cli {

struct DevicesFlags {
  bool as_json = false;
  std::string device, pkey;
  std::uint32_t port = 0;
  int gid_index = -1;
};

// The table of `loch devices`' flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command devices_command(DevicesFlags& flags);

// Runs `loch devices`. Exit status: 0 the fabric has a port to use; 1 it has none; 2 bad input.
[[nodiscard]] int run_devices_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
