// `loch fuzz` --mutants and --holes: measure how many seeds it takes to find each known-bad variant, or each
// hole (known flaw) of a published design, as a distribution over independent starts (waits.h).
#pragma once

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Look for every mutant (measure_mutants) or every hole, which is a known flaw of a published design
// (measure_holes), each until it was found options.starts times, or until options.seeds seeds or options.time
// are used up for it. Both print a Markdown table with one row for each, and store the measurements in
// options.results. Exit status: 0: every one was found; 1: one was not found; 2: the results file cannot be
// used; 130: interrupted.
[[nodiscard]] int measure_mutants(const FuzzOptions& options, const kv::Module& module);
[[nodiscard]] int measure_holes(const FuzzOptions& options, const kv::Module& module);

// Returns `options`, changed to run the protocol's variant that has this hole (known flaw of the published
// design).
[[nodiscard]] FuzzOptions with_hole(FuzzOptions options, const kv::Hole& hole);

}  // namespace loch::fuzz
