// Reads fields of untrusted JSON, and checks that each is present, of the right type and within its range.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch::fabric::processes::fields {

using Json = nlohmann::json;

constexpr std::uint64_t u16_most = 65535, u32_most = 0xffffffffu;

// Thrown for a field that is missing, of the wrong type or out of range; guarded() catches it.
struct Malformed {
  std::string what;
};

inline const Json& member(const Json& object, const char* name) {
  if (!object.is_object()) throw Malformed{fmt::format("{}: not in an object", name)};
  const auto found = object.find(name);
  if (found == object.end()) throw Malformed{fmt::format("{}: missing", name)};
  return *found;
}

inline std::uint64_t number(const Json& value, const char* name, std::uint64_t most) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw Malformed{fmt::format("{}: expected a whole number up to {}", name, most)};
  return value.get<std::uint64_t>();
}

inline std::uint64_t number_in(const Json& object, const char* name, std::uint64_t most) {
  return number(member(object, name), name, most);
}

inline const Json& array_in(const Json& object, const char* name, std::size_t most) {
  const Json& array = member(object, name);
  if (!array.is_array() || array.size() > most)
    throw Malformed{fmt::format("{}: expected a list of up to {}", name, most)};
  return array;
}

inline std::string text_in(const Json& object, const char* name, std::size_t most) {
  const Json& value = member(object, name);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > most)
    throw Malformed{fmt::format("{}: expected a text of up to {} bytes", name, most)};
  return value.get<std::string>();
}

// Returns a boolean field; false if it is absent.
inline bool flag_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return false;
  if (!found->is_boolean()) throw Malformed{fmt::format("{}: expected true or false", name)};
  return found->get<bool>();
}

template <typename T, typename Parse>
Result<T> guarded(std::string_view text, const char* what, Parse parse) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::corrupt, fmt::format("{}: not JSON", what));
  try {
    return parse(json);
  } catch (const Malformed& malformed) {
    return fail(ErrorCode::corrupt, fmt::format("{}: {}", what, malformed.what));
  }
}

}  // namespace loch::fabric::processes::fields
