// Parses and holds typed protocol options, and suggests the nearest key for an unknown one.
#include "common/kv/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/nearest.h"

namespace loch::kv {
Options::Options(std::vector<OptionSpec> specs) : specs_(std::move(specs)) {
  for (const OptionSpec& spec : specs_) {
    auto value = settings::parse(spec, spec.initial);
    LOCH_CHECK(value.has_value(), "the default of {} is bad: {}", spec.key, value.error().message);
    values_[spec.key] = std::move(*value);
  }
}

Result<> Options::set(std::string_view key, std::string_view text) {
  LOCH_TRY(set_default(key, text));
  given_.insert(find_option(specs_, key)->key);
  return {};
}

Result<> Options::set_default(std::string_view key, std::string_view text) {
  const OptionSpec* spec = find_option(specs_, key);
  if (spec == nullptr) {
    std::vector<std::string> keys;
    for (const OptionSpec& each : specs_) keys.push_back(each.key);
    const std::string near = nearest(key, keys);
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: no such option{}", key,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  auto value = settings::parse(*spec, text);
  if (!value) return std::unexpected(std::move(value.error()));
  values_[spec->key] = std::move(*value);
  if (const auto given = given_.find(spec->key); given != given_.end()) given_.erase(given);
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

OptionSpec fix_option(const std::string& protocol, const std::string& hole, std::string help,
                      const char* initial) {
  return {.key = fmt::format("{}.mend-{}", protocol, hole),
          .type = OptionType::boolean,
          .initial = initial,
          .help = std::move(help),
          .choices = {},
          .aliases = {fmt::format("{}.fix-{}", protocol, hole)}};
}

const OptionSpec* find_option(const std::vector<OptionSpec>& specs, std::string_view name) {
  const auto found = std::ranges::find_if(specs, [&](const OptionSpec& each) {
    return each.key == name || std::ranges::find(each.aliases, name) != each.aliases.end();
  });
  return found == specs.end() ? nullptr : &*found;
}

void let_fuzz(std::vector<OptionSpec>& specs, std::string_view key, std::vector<std::string> values) {
  spec_of(specs, key).fuzz_values = std::move(values);
}

}  // namespace loch::kv
