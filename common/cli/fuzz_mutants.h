// loch fuzz --mutants: by which seed each known-bad variant is found.
#pragma once

#include "common/cli/fuzz.h"

namespace loch::cli {

// Prints a Markdown table, one row a mutant. Exit status: 0 each was found; 1 one was not within
// options.seeds; 130 interrupted.
[[nodiscard]] int measure_mutants(const FuzzOptions& options, const kv::Module& module);

}  // namespace loch::cli
