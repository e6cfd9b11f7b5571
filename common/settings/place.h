// Where a setting's value goes: a variable of one of the types that options are kept in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/units.h"
#include "common/settings/setting.h"

namespace loch::settings {

// A boolean that its flag switches off: --no-reduction.
struct Off {
  bool* place;
};

// monostate: nowhere; the value is checked all the same. A list takes one text more each time.
using Place = std::variant<std::monostate, bool*, std::uint32_t*, std::int32_t*, std::uint64_t*, Nanos*,
                           double*, std::string*, std::optional<bool>*, std::optional<std::uint32_t>*,
                           std::optional<Nanos>*, std::optional<double>*, Off, std::vector<std::string>*>;

// `value` is what parse() made of a setting whose type fits the place.
void store(const Place& place, const Value& value);
// nullopt: nothing is there, or it is a list.
[[nodiscard]] std::optional<Value> stored(const Place& place);

}  // namespace loch::settings
