#include "common/kv/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/units.h"

namespace loch::kv {
namespace {

Result<Options::Value> parse(const OptionSpec& spec, std::string_view text) {
  const auto bad = [&](std::string_view expected) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: \"{}\" is not {}", spec.key, text, expected));
  };
  const auto in_range = [&](double value) { return value >= spec.minimum && value <= spec.maximum; };
  const auto range_text = [&](std::string_view kind) {
    return fmt::format("{} from {} to {}", kind, spec.minimum, spec.maximum);
  };
  switch (spec.type) {
    case OptionType::boolean:
      if (text == "true" || text == "on" || text == "1" || text == "yes") return true;
      if (text == "false" || text == "off" || text == "0" || text == "no") return false;
      return bad("true or false");
    case OptionType::choice:
      if (std::ranges::find(spec.choices, text) == spec.choices.end()) {
        return bad(fmt::format("one of {}", fmt::join(spec.choices, ", ")));
      }
      return std::string(text);
    case OptionType::text:
      return std::string(text);
    case OptionType::integer: {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{} || end != text.data() + text.size() || !in_range(static_cast<double>(value))) {
        return bad(range_text("a whole number"));
      }
      return value;
    }
    case OptionType::real: {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc{} || end != text.data() + text.size() || !in_range(value))
        return bad(range_text("a number"));
      return value;
    }
    case OptionType::size: {
      const auto value = parse_size(text, spec.key);
      if (!value) return std::unexpected(value.error());
      if (!in_range(static_cast<double>(*value))) return bad(range_text("a number of bytes"));
      return static_cast<std::int64_t>(*value);
    }
    case OptionType::duration: {
      const auto value = parse_duration(text, spec.key);
      if (!value) return std::unexpected(value.error());
      if (!in_range(static_cast<double>(*value))) return bad(range_text("a number of nanoseconds"));
      return *value;
    }
  }
  return bad("of a known type");
}

}  // namespace

Options::Options(std::vector<OptionSpec> specs) : specs_(std::move(specs)) {
  for (const OptionSpec& spec : specs_) {
    auto value = parse(spec, spec.initial);
    LOCH_CHECK(value.has_value(), "the default of {} is bad: {}", spec.key, value.error().message);
    values_[spec.key] = std::move(*value);
  }
}

Result<> Options::set(std::string_view key, std::string_view text) {
  const auto spec = std::ranges::find(specs_, key, &OptionSpec::key);
  if (spec == specs_.end()) {
    std::vector<std::string> keys;
    for (const OptionSpec& each : specs_) keys.push_back(each.key);
    const std::string near = nearest(key, keys);
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: no such option{}", key,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  auto value = parse(*spec, text);
  if (!value) return std::unexpected(std::move(value.error()));
  values_.find(key)->second = std::move(*value);
  return {};
}

const Options::Value& Options::at(std::string_view key) const {
  const auto found = values_.find(key);
  LOCH_CHECK(found != values_.end(), "no option {}", key);
  return found->second;
}
bool Options::boolean(std::string_view key) const { return std::get<bool>(at(key)); }
std::int64_t Options::integer(std::string_view key) const { return std::get<std::int64_t>(at(key)); }
double Options::real(std::string_view key) const { return std::get<double>(at(key)); }
const std::string& Options::choice(std::string_view key) const { return std::get<std::string>(at(key)); }

const std::string& Options::text(std::string_view key) const { return std::get<std::string>(at(key)); }

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = name.size() / 2 + 2;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t up = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = up;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

namespace {

OptionSpec& spec_of(std::vector<OptionSpec>& specs, std::string_view key) {
  const auto found = std::ranges::find(specs, key, &OptionSpec::key);
  LOCH_CHECK(found != specs.end(), "there is no option {}", key);
  return *found;
}

}  // namespace

void give_role(std::vector<OptionSpec>& specs, std::string_view key, OptionRole role) {
  spec_of(specs, key).role = role;
}

void let_fuzz(std::vector<OptionSpec>& specs, std::string_view key, std::vector<std::string> values) {
  spec_of(specs, key).fuzz_values = std::move(values);
}

}  // namespace loch::kv
