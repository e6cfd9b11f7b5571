// The flags of `loch fuzz`.
#pragma once

#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"
#include "common/settings/command.h"

namespace loch::fuzz {

// Number of seeds for each known-bad variant (--mutants) or hole (--holes), unless --seeds is given.
constexpr std::uint64_t seeds_of_tables = 5000;

struct FuzzFlags {
  FuzzOptions options;
  bool shrinks = true;
  std::string unfair, backoff;
  std::vector<std::string> set;  // protocol options as KEY=VALUE
};

// The table of `loch fuzz`'s flags. Parsing stores into `flags`, which holds the defaults and has to outlive
// the table.
[[nodiscard]] settings::Command fuzz_command(FuzzFlags& flags);

}  // namespace loch::fuzz
