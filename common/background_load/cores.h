// Parses and prints lists of CPU cores, and chooses the cores of background workers: "none" leaves them
// unpinned, "shared" pins them to the cores of the processes that they disturb, "separate" to all other
// cores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::background {

// Parses a list of cores such as "0-3,6" (the syntax of taskset) into ascending core numbers without
// duplicates. `what` names the command-line flag in the error message.
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_cores(std::string_view text, std::string_view what);
[[nodiscard]] std::string format_cores(const std::vector<std::uint32_t>& cores);
// The cores that this process may run on, ascending.
[[nodiscard]] std::vector<std::uint32_t> usable_cores();

// Returns the cores to which background workers are pinned; an empty list means that they are not pinned.
// `pin` is "none", "shared" or "separate"; `theirs` are the cores of the processes that the background
// workers disturb. "separate" fails if `theirs` covers all `usable` cores. `what` names the command-line flag
// in the error message.
[[nodiscard]] Result<std::vector<std::uint32_t>> place_background_load(
    std::string_view pin, std::string_view what, const std::vector<std::uint32_t>& theirs,
    const std::vector<std::uint32_t>& usable);

}  // namespace loch::background
