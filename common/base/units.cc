// Parses and formats sizes (such as 16K) and durations (such as 50ms).
#include "common/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace loch {
namespace {

struct Split {
  double number;
  std::string_view unit;
};

// Splits text such as "1.5K" into the number 1.5 and the unit "K"; returns false if `text` does not start
// with a plain decimal number.
bool split(std::string_view text, Split& out) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return false;
  out = {number, text.substr(static_cast<std::size_t>(end - text.data()))};
  return true;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text, std::string_view what) {
  const auto bad = [&] {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: \"{}\" is not a size; expected bytes such as 512, 16K, 1M or 20G", what, text));
  };
  Split parts{};
  if (!split(text, parts)) return bad();
  std::string_view unit = parts.unit;
  double factor = 1;
  if (!unit.empty()) {
    constexpr std::string_view letters = "KMGT";
    const char first = unit.front() >= 'a' ? static_cast<char>(unit.front() - 'a' + 'A') : unit.front();
    const auto at = letters.find(first);
    if (at != std::string_view::npos) {
      factor = std::pow(1024.0, static_cast<double>(at + 1));
      unit.remove_prefix(1);
      if (!unit.empty() && unit.front() == 'i') unit.remove_prefix(1);
    }
    if (!unit.empty() && unit != "B" && unit != "b") return bad();
  }
  const double bytes = parts.number * factor;
  if (bytes != std::floor(bytes) || bytes >= 0x1.0p63) return bad();
  return static_cast<std::uint64_t>(bytes);
}

namespace {
constexpr std::array<std::pair<std::string_view, double>, 6> time_units{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
}

Result<Nanos> parse_duration(std::string_view text, std::string_view what) {
  Split parts{};
  if (split(text, parts)) {
    for (const auto& [name, factor] : time_units) {
      if (parts.unit == name && parts.number * factor < 9e18) {
        return static_cast<Nanos>(std::llround(parts.number * factor));
      }
    }
  }
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{}: \"{}\" is not a duration; expected a number with a unit such as 5us, 50ms or 10s",
                  what, text));
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::string_view letters = "KMGT";
  std::uint64_t value = bytes;
  int steps = 0;
  while (value != 0 && value % 1024 == 0 && steps < 4) {
    value /= 1024;
    ++steps;
  }
  return steps == 0 ? fmt::format("{}", bytes)
                    : fmt::format("{}{}", value, letters[static_cast<std::size_t>(steps - 1)]);
}

std::string format_duration(Nanos span) {
  for (const auto& [name, factor] :
       {std::pair<std::string_view, Nanos>{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}}) {
    if (span != 0 && span % factor == 0) return fmt::format("{}{}", span / factor, name);
  }
  return fmt::format("{}ns", span);
}

}  // namespace loch
