// Writes a setting's value to its variable, and reads it from there.
#include "common/settings/place.h"

#include <type_traits>

namespace loch::settings {
namespace {

// The type in the variant Value that holds the value of a variable of type T.
template <typename T>
using Kept = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>;

struct Writer {
  const Value& value;
  void operator()(std::monostate) const {}
  void operator()(const Off& into) const { *into.place = !std::get<bool>(value); }
  void operator()(std::vector<std::string>* into) const { into->push_back(std::get<std::string>(value)); }
  template <typename T>
  void operator()(std::optional<T>* into) const {
    *into = static_cast<T>(std::get<Kept<T>>(value));
  }
  template <typename T>
  void operator()(T* into) const {
    *into = static_cast<T>(std::get<Kept<T>>(value));
  }
};

struct Reader {
  std::optional<Value> operator()(std::monostate) const { return std::nullopt; }
  std::optional<Value> operator()(const Off& from) const { return !*from.place; }
  std::optional<Value> operator()(const std::vector<std::string>*) const { return std::nullopt; }
  template <typename T>
  std::optional<Value> operator()(const std::optional<T>* from) const {
    if (!*from) return std::nullopt;
    return Value(static_cast<Kept<T>>(**from));
  }
  template <typename T>
  std::optional<Value> operator()(const T* from) const {
    return Value(static_cast<Kept<T>>(*from));
  }
};

}  // namespace

void store(const Place& place, const Value& value) { std::visit(Writer{value}, place); }

std::optional<Value> stored(const Place& place) { return std::visit(Reader{}, place); }

}  // namespace loch::settings
