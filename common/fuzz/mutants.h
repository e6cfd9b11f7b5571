// loch fuzz --mutants and --holes: by which seed each known-bad variant, or each hole of a published design,
// is found.
#pragma once

#include "common/fuzz/fuzz.h"

namespace loch::fuzz {

// Print a Markdown table, one row a mutant or hole. Exit status: 0 each was found; 1 one was not within
// options.seeds; 130 interrupted.
[[nodiscard]] int measure_mutants(const FuzzOptions& options, const kv::Module& module);
[[nodiscard]] int measure_holes(const FuzzOptions& options, const kv::Module& module);

// The options with which a hole is looked for.
[[nodiscard]] FuzzOptions with_hole(FuzzOptions options, const kv::Hole& hole);

}  // namespace loch::fuzz
