// The names of the kinds of conflict avoidance, as flags and stored scenarios give them.
#pragma once

#include <array>
#include <string_view>

#include "common/kv/conflicts.h"

namespace loch::kv {

// In the order of ConflictConfig::Kind.
constexpr std::array<std::string_view, 4> conflict_kinds = {"none", "exponential", "limited", "throttled"};

[[nodiscard]] constexpr std::string_view name(ConflictConfig::Kind kind) {
  return conflict_kinds.at(static_cast<std::size_t>(kind));
}

}  // namespace loch::kv
