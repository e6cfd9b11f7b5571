// The command `loch litmus`: races (concurrent accesses of two nodes to one memory) as a table of what a
// device does against what it claims.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/settings/command.h"

namespace loch::cli {

struct LitmusFlags {
  bool as_json = false;
  std::string fabric, hardware, device, pkey, ofi_provider, hostfile;
  std::vector<std::string> races;  // empty: all
  std::uint32_t port = 0;
  int gid_index = -1;
  Nanos time = 0;
  std::uint64_t tries = 0;
};

// The table of `loch litmus`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command litmus_command(LitmusFlags& flags);

// Runs `loch litmus`: both nodes in this process, or one in each process of a launch of two. Exit status: 0
// nothing that the device rules out was seen; 1 something was, or the run failed; 2 bad input.
[[nodiscard]] int run_litmus_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
