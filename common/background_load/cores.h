// Lists of cores, and where background workers go: "none" wherever the kernel puts them, "shared" on the
// cores of what they disturb, "separate" on the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::background {

// "0-3,6", as taskset and the kernel write it: sorted, each once. `what` names the flag for the error.
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_cores(std::string_view text, std::string_view what);
[[nodiscard]] std::string format_cores(const std::vector<std::uint32_t>& cores);
// The cores that this process may run on, ascending.
[[nodiscard]] std::vector<std::uint32_t> usable_cores();

// The cores for background workers that are pinned as `pin` says alongside something on the cores `theirs`.
// Empty: none. Refuses "separate" where nothing is left. `what` names the flag for the error.
[[nodiscard]] Result<std::vector<std::uint32_t>> place_background_load(
    std::string_view pin, std::string_view what, const std::vector<std::uint32_t>& theirs,
    const std::vector<std::uint32_t>& usable);

}  // namespace loch::background
