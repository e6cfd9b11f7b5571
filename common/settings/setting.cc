// Parses the text of a setting by its type, and describes the accepted values.
#include "common/settings/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "common/base/nearest.h"
#include "common/base/units.h"

namespace loch::settings {
namespace {

constexpr double unbounded = 1e18;  // a maximum from here on stands for "no maximum"

std::optional<double> real_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses an integer such as "1000" or "-3", or one with a suffix, such as "1M".
std::optional<std::int64_t> whole_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  const auto size = parse_size(text, "");
  if (!size || *size > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(*size);
}

// Parses the text by the setting's type, without checking its range.
std::optional<Value> read(const Setting& setting, std::string_view text) {
  switch (setting.type) {
    case Type::boolean:
      if (text == "true" || text == "on" || text == "1" || text == "yes") return true;
      if (text == "false" || text == "off" || text == "0" || text == "no") return false;
      return std::nullopt;
    case Type::choice:
      if (std::ranges::find(setting.choices, text) == setting.choices.end()) return std::nullopt;
      return std::string(text);
    case Type::text:
      return std::string(text);
    case Type::file:
    case Type::output:
      if (text.empty()) return std::nullopt;
      return std::string(text);
    case Type::integer:
      if (const auto value = whole_of(text)) return *value;
      return std::nullopt;
    case Type::real:
      if (const auto value = real_of(text)) return *value;
      return std::nullopt;
    case Type::size:
      if (const auto value = parse_size(text, ""); value && *value <= static_cast<std::uint64_t>(INT64_MAX))
        return static_cast<std::int64_t>(*value);
      return std::nullopt;
    case Type::duration:
      if (const auto value = parse_duration(text, "")) return *value;
      return std::nullopt;
  }
  return std::nullopt;
}

bool is_in_range(const Setting& setting, const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    const auto number = static_cast<double>(*whole);
    return number >= setting.minimum && number <= setting.maximum;
  }
  if (const auto* number = std::get_if<double>(&value))
    return *number >= setting.minimum && *number <= setting.maximum;
  return true;
}

std::string unit_text(const Setting& setting) {
  return setting.unit.empty() ? "" : fmt::format("of {} ", setting.unit);
}

bool is_number(Type type) {
  return type == Type::integer || type == Type::real || type == Type::size || type == Type::duration;
}

// Describes the accepted values for the end of an error message.
std::string expected_range(const Setting& setting) {
  const std::string least = bound_text(setting, setting.minimum);
  if (setting.maximum >= unbounded) return fmt::format("of at least {}", least);
  return fmt::format("from {} to {}", least, bound_text(setting, setting.maximum));
}

}  // namespace

Setting of(Type type, std::string key, std::string initial, std::string help, double minimum,
           double maximum) {
  return {.key = std::move(key),
          .type = type,
          .initial = std::move(initial),
          .help = std::move(help),
          .choices = {},
          .minimum = minimum,
          .maximum = maximum};
}

Setting choice(std::string key, std::vector<std::string> choices, std::string help, std::string placeholder) {
  Setting setting = of(Type::choice, std::move(key), choices.front(), std::move(help));
  setting.choices = std::move(choices);
  setting.placeholder = std::move(placeholder);
  return setting;
}

Setting shown(Setting setting, std::string placeholder) {
  setting.placeholder = std::move(placeholder);
  return setting;
}

Setting also(std::string alias, Setting setting) {
  setting.aliases.push_back(std::move(alias));
  return setting;
}

Setting in_unit(Setting setting, std::string unit) {
  setting.unit = std::move(unit);
  return setting;
}

Setting listed(Setting setting, std::string named_by) {
  setting.named_by = std::move(named_by);
  return setting;
}

std::string range_text(const Setting& setting) {
  if (setting.type == Type::choice) return fmt::format("{}", fmt::join(setting.choices, ", "));
  if (!is_number(setting.type)) return "";
  const std::string least = bound_text(setting, setting.minimum);
  return setting.maximum >= unbounded ? fmt::format("≥ {}", least)
                                      : fmt::format("{} … {}", least, bound_text(setting, setting.maximum));
}

std::string_view name(Type type) {
  constexpr std::array<std::string_view, 9> names = {"boolean", "integer", "real", "size",  "duration",
                                                     "choice",  "text",    "file", "output"};
  return names[static_cast<std::size_t>(type)];
}

std::string_view name(Role role) {
  constexpr std::array<std::string_view, 18> names = {
      "none",          "load_factor",  "hash_functions", "initial_slots",
      "spare_entries", "expiry",       "clock_margin",   "background_period",
      "cache",         "cache_share",  "backoff_cap",    "reconnect_timeout",
      "attempts",      "first_number", "reply_timeout",  "give_up",
      "search_depth",  "file"};
  return names[static_cast<std::size_t>(role)];
}

std::string bound_text(const Setting& setting, double bound) {
  if (setting.type == Type::real || bound < 0 || bound >= unbounded) return fmt::format("{:g}", bound);
  const auto whole = static_cast<std::uint64_t>(bound);
  if (setting.type == Type::size) return format_size(whole);
  if (setting.type == Type::duration && whole > 0) return format_duration(static_cast<Nanos>(whole));
  return fmt::format("{}", whole);
}

std::string expected(const Setting& setting) {
  switch (setting.type) {
    case Type::boolean:
      return "true or false";
    case Type::choice:
      return setting.choices.size() == 1 ? setting.choices.front()
                                         : fmt::format("one of {}", fmt::join(setting.choices, ", "));
    case Type::text:
      return "a text";
    case Type::file:
    case Type::output:
      return "a name";
    case Type::integer:
      return fmt::format("a whole number {}{}", unit_text(setting), expected_range(setting));
    case Type::real:
      return fmt::format("a number {}{}", unit_text(setting), expected_range(setting));
    case Type::size:
      return fmt::format("a size in bytes {}, such as 128 or 16K", expected_range(setting));
    case Type::duration:
      return setting.maximum >= unbounded && setting.minimum <= 0
                 ? "a duration with its unit, such as 50ms or 10s"
                 : fmt::format("a duration {}, with its unit, such as 50ms or 10s", expected_range(setting));
  }
  return "a text";
}

std::string placeholder(const Setting& setting) {
  if (!setting.placeholder.empty()) return setting.placeholder;
  if (!setting.choices.empty()) return fmt::format("{}", fmt::join(setting.choices, "|"));
  constexpr std::array<const char*, 9> words = {"BOOL", "N",    "NUMBER", "BYTES", "TIME",
                                                "NAME", "TEXT", "FILE",   "FILE"};
  return words[static_cast<std::size_t>(setting.type)];
}

Result<Value> parse(const Setting& setting, std::string_view text) {
  auto value = read(setting, text);
  if (value && is_in_range(setting, *value)) return *std::move(value);
  const std::string near = setting.type == Type::choice ? nearest(text, setting.choices) : "";
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: \"{}\" is not {}{}", setting.key, text, expected(setting),
                          near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace loch::settings
