// Pointers to the variables that hold settings' values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/units.h"
#include "common/settings/setting.h"

namespace loch::settings {

// A boolean variable that its flag sets to false, such as that of --no-reduction.
struct Off {
  bool* place;
};

// Where a value is stored; monostate: nowhere, and the value is checked only. Each value of a list is
// appended to a vector.
using Place = std::variant<std::monostate, bool*, std::uint32_t*, std::int32_t*, std::uint64_t*, Nanos*,
                           double*, std::string*, std::optional<bool>*, std::optional<std::uint32_t>*,
                           std::optional<Nanos>*, std::optional<double>*, Off, std::vector<std::string>*>;

// Writes a value to its variable. `value` is a result of parse() for a setting whose type fits the variable.
void store(const Place& place, const Value& value);
// Returns the variable's value; nullopt if the place has no variable, or if the variable is a list.
[[nodiscard]] std::optional<Value> stored(const Place& place);

}  // namespace loch::settings
