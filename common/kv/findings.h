// The findings of an audit of tables at rest, one line each.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace loch::kv {

// Keeps only the first few findings, because one fault often causes thousands.
class Findings {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t most = 20;
    if (lines_.size() < most) lines_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

}  // namespace loch::kv
