// `loch fuzz` --corpus DIR: a campaign of many hours that can be interrupted and resumed.
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Runs fresh seeds and small variations of the corpus's scenarios until options.time is over, options.seeds
// have been run (if no time was given), or an interrupt comes. The first ten findings of each kind are shrunk
// and stored in DIR/findings with their HTML pages. Exit status: 0: nothing found in this session; 1: found;
// 2: bad input; 130: interrupted.
[[nodiscard]] int run_long(const FuzzOptions& options, const kv::Module& module,
                           const kv::Registry& registry);

}  // namespace loch::fuzz
