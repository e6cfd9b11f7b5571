// `loch fuzz` --mutants --shrunk, --holes --shrunk: measures how small a scenario can show each known-bad
// variant, or each hole (known fault) of a published design.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Prints a Markdown table with a row for each known-bad variant that random runs find and for each hole
// (known fault), as the options ask, and then the median, 90th percentile and maximum of the number of
// operations left after shrinking. Exit status: 0; 1: a variant was not found; 130: interrupted.
[[nodiscard]] int measure_shrinking(const FuzzOptions& options, const kv::Registry& protocols);

}  // namespace loch::fuzz
