// loch fuzz --corpus DIR: a campaign that goes on for hours, over interruptions.
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Runs fresh seeds and neighbours of the scenarios that the corpus keeps, until options.time is over,
// options.seeds have been run (where no time was given), or an interrupt. What is found is stored in
// DIR/findings, small and drawn; of each kind the first ten. Exit status: 0 nothing found in this session; 1
// found; 2 bad input; 130 interrupted.
[[nodiscard]] int run_long(const FuzzOptions& options, const kv::Module& module,
                           const kv::Registry& registry);

}  // namespace loch::fuzz
