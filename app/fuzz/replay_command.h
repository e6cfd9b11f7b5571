// loch fuzz --replay FILE.
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Runs options.replay, with options.mutant (none: without the file's) and options.settings instead of what it
// says, and prints what shows. Exit status: 0 nothing shows; 1 something does; 2 bad input.
[[nodiscard]] int run_replay(const FuzzOptions& options, const kv::Registry& registry);

}  // namespace loch::fuzz
