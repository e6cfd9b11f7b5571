// The command `loch cpu`: what this machine's processor takes for the parts of a server's work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/settings/command.h"

namespace loch::cli {

struct ProcessorFlags {
  std::uint64_t memory_bytes = 0;  // 0: half of what is available, at most 16 GiB
  std::string json;
};

// The table of `loch cpu`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command processor_command(ProcessorFlags& flags);

// Runs `loch cpu`. Exit status: 0 the costs were printed; 1 the memory cannot be had; 2 bad input.
[[nodiscard]] int run_processor_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
