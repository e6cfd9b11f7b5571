// Parts of a text.
#pragma once

#include <string_view>
#include <vector>

namespace loch {

// The parts of `text` between its separators, as views of `text`: one more than there are separators; parts
// may be empty.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace loch
