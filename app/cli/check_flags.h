// The flags of `loch check`.
#pragma once

#include <string>
#include <vector>

#include "common/check/linearizable.h"
#include "common/settings/command.h"

namespace loch::cli {

struct CheckFlags {
  std::string model, initial;
  bool has_tombstones = false;
  bool prints = false;
};

// The table of `loch check`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command check_command(CheckFlags& flags);

[[nodiscard]] check::CheckOptions check_options(const CheckFlags& flags);

}  // namespace loch::cli
