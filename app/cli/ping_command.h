// The command `loch ping`: pings between all pairs of nodes over RC, UC and UD, as a matrix with a verdict.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/settings/command.h"

namespace loch::cli {

struct PingFlags {
  bool as_json = false;
  std::string fabric, device, pkey, ofi_provider;
  std::uint32_t nodes = 2, port = 0;
  int gid_index = -1;
  Nanos round = 0, reply = 0;
  double slow = 5;
};

// The table of `loch ping`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command ping_command(PingFlags& flags);

// Runs `loch ping`: all nodes in this process, or one node in each process of a launch. Exit status: 0 every
// pair pings without faults; 1 some pair or host stands out as faulty, or the run failed; 2 bad input.
[[nodiscard]] int run_ping_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
