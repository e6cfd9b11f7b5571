// Reads integers from JSON of unknown origin: a value of another type, or one that the field cannot hold, is
// refused. (nlohmann::json converts silently: it truncates a fraction, and converting 1e300 to an integer is
// undefined.)
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace loch::measure {

// The value of `in`. Throws nlohmann::json::type_error if it is not an integer that T can hold.
template <std::integral T>
[[nodiscard]] T whole(const nlohmann::json& in) {
  const auto is_held = [&] {
    if (in.is_number_unsigned()) {
      return in.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    }
    return in.is_number_integer() && std::signed_integral<T> && std::in_range<T>(in.get<std::int64_t>());
  };
  if (!is_held()) {
    throw nlohmann::json::type_error::create(
        302,
        fmt::format("expected a whole number up to {}, found {}", std::numeric_limits<T>::max(), in.dump()),
        &in);
  }
  return in.get<T>();
}

}  // namespace loch::measure
