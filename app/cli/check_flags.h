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
};

// Its places are in `flags`, which outlives it.
[[nodiscard]] settings::Command check_command(CheckFlags& flags);

// What the flags ask of the checker.
[[nodiscard]] check::CheckOptions check_options(const CheckFlags& flags);

}  // namespace loch::cli
