// The flags of `loch fuzz`.
#pragma once

#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"
#include "common/settings/command.h"

namespace loch::fuzz {

// Of --mutants and --holes, where --seeds does not say.
constexpr std::uint64_t seeds_of_tables = 5000;

struct FuzzFlags {
  FuzzOptions options;
  bool shrinks = true;
  std::string unfair;
  std::vector<std::string> set;  // KEY=VALUE
};

// Its places are in `flags`, which holds the defaults and outlives it.
[[nodiscard]] settings::Command fuzz_command(FuzzFlags& flags);

}  // namespace loch::fuzz
