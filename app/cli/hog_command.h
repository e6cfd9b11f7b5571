// loch hog: CPU contention by itself, or beside a command.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/settings/command.h"

namespace loch::cli {

struct HogOptions {
  std::uint32_t workers = 0;
  std::string pin;                   // none, shared, separate
  std::vector<std::uint32_t> cores;  // that the command is pinned to; empty: not pinned
  Nanos duration = 0;                // without a command
  std::uint32_t buffer_bytes = 0;
  std::string group;            // auto, cgroup, session
  std::optional<double> quota;  // CPU seconds a second, of hogs and command together
  std::string json;             // empty: standard output
  std::vector<std::string> command;
};

// As they were given. Defaults are in the table.
struct HogFlags {
  HogOptions options;
  std::string cores;  // "0-3,6"
};

// The table of its flags. Its places are in `flags`, which outlives it.
[[nodiscard]] settings::Command hog_command(HogFlags& flags);

// Everything after "hog". The error is one line, for exit status 2.
[[nodiscard]] Result<HogOptions> parse_hog(const std::vector<std::string>& arguments);

// Returns the exit status: 0; the command's if that is another; 1 when hogs were lost; 2 bad input; 130
// interrupted.
[[nodiscard]] int run_hog_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
