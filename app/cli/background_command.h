// loch hog: CPU contention by itself, or alongside a command.
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
  std::string pin;                   // --pin: none, shared or separate
  std::vector<std::uint32_t> cores;  // that the command is pinned to; empty: not pinned
  Nanos duration = 0;                // how long, without a command
  std::uint32_t buffer_bytes = 0;
  std::string group;            // auto, cgroup, session
  std::optional<double> quota;  // CPU seconds a second, of background workers and command together
  std::string json;             // empty: standard output
  std::vector<std::string> command;
};

// As they were given. Defaults are in the table.
struct BackgroundFlags {
  BackgroundOptions options;
  std::string cores;  // "0-3,6"
};

// The table of loch hog's flags. Its places are in `flags`, which outlives it.
[[nodiscard]] settings::Command background_command(BackgroundFlags& flags);

// Everything after "hog". The error is one line, for exit status 2.
[[nodiscard]] Result<BackgroundOptions> parse_background(const std::vector<std::string>& arguments);

// Returns the exit status: 0; the command's if that is another; 1 when background workers were lost; 2 bad
// input; 130 interrupted.
[[nodiscard]] int run_background_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
