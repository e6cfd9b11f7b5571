// Finds the known name that a user may have meant by a misspelled one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace loch {

// The candidate with the smallest edit distance to `name`; empty if no candidate is close.
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace loch
