// Splits `--flag=VALUE` and names the flag that was probably meant.
#include "app/cli/flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/nearest.h"
#include "common/kv/options.h"

namespace loch::cli {

GivenFlag split_flag(const std::string& argument) {
  const auto equals = argument.find('=');
  if (!argument.starts_with("--") || equals == std::string::npos) return {argument, "", false};
  return {argument.substr(0, equals), argument.substr(equals + 1), true};
}

Result<> known_flag(const std::string& name, const std::vector<std::string>& flags, std::string_view stray) {
  if (std::ranges::find(flags, name) != flags.end()) return {};
  const std::string near = nearest(name, flags);
  const std::string hint = !near.empty()           ? fmt::format("; did you mean {}?", near)
                           : name.starts_with("-") ? ""
                                                   : std::string(stray);
  return fail(ErrorCode::invalid_argument, fmt::format("{}: no such flag{}", name, hint));
}

}  // namespace loch::cli
