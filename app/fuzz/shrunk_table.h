// loch fuzz --mutants --shrunk, --holes --shrunk: how small the scenario becomes that shows each known-bad
// variant, or each hole of a published design.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

// Prints Markdown, a row for each variant of `protocols` that random runs find, and the median. Exit status:
// 0; 1: one was not found; 130 interrupted.
[[nodiscard]] int measure_shrinking(const FuzzOptions& options, const kv::Registry& protocols);

}  // namespace loch::fuzz
