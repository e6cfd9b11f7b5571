// `loch fuzz` --replay FILE: runs a stored scenario again.
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Runs the file options.replay, in which options.mutant (`none` switches the mutant off) and options.settings
// override the file's, and prints the result. Exit status: 0: no finding; 1: a finding; 2: bad input.
[[nodiscard]] int run_replay(const FuzzOptions& options, const kv::Registry& registry);

}  // namespace loch::fuzz
