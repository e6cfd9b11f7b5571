// `loch hog`: CPU load by background workers, alone or alongside a command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/settings/command.h"

namespace loch::cli {

struct BackgroundOptions {
  std::uint32_t workers = 0;
  std::string pin;                   // where the background workers are pinned: none, shared or separate
  std::vector<std::uint32_t> cores;  // cores that the command is pinned to; empty: not pinned
  Nanos duration = 0;                // ns that the load lasts if no command is given
  std::uint32_t buffer_bytes = 0;
  std::string group;            // scheduling group: auto, cgroup or session
  std::optional<double> quota;  // CPU seconds per second that background workers and command may use together
  std::string json;             // output file; empty: standard output
  std::vector<std::string> command;
};

// The flags' values as given, before they are checked. background_command() sets the defaults.
struct BackgroundFlags {
  BackgroundOptions options;
  std::string cores;  // list of cores such as "0-3,6"
};

// The table of `loch hog`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command background_command(BackgroundFlags& flags);

// Parses the arguments after "hog". An error is one line, for exit status 2.
[[nodiscard]] Result<BackgroundOptions> parse_background(const std::vector<std::string>& arguments);

// Runs `loch hog`. Exit status: 0, or the status of the user's command if that is not 0; 1: background
// workers were lost; 2: bad input; 130: interrupted.
[[nodiscard]] int run_background_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
