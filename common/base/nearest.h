// Which of the known names somebody may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace loch {

// The candidate closest to `name` by edit distance, or empty when nothing is near.
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace loch
