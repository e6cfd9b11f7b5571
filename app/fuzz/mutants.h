// loch fuzz --mutants and --holes: how many seeds it takes to find each known-bad variant, or each hole of a
// published design, as a distribution over independent starts (waits.h).
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Print a Markdown table, one row a mutant or hole: of options.starts starts within options.seeds seeds and
// options.time, each. What was measured is kept in options.results. Exit status: 0 each was found; 1 one was
// not; 2 the file of results cannot be used; 130 interrupted.
[[nodiscard]] int measure_mutants(const FuzzOptions& options, const kv::Module& module);
[[nodiscard]] int measure_holes(const FuzzOptions& options, const kv::Module& module);

// The options with which a hole is looked for.
[[nodiscard]] FuzzOptions with_hole(FuzzOptions options, const kv::Hole& hole);

}  // namespace loch::fuzz
