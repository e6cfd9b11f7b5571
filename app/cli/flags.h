// What the subcommands that read their own flags share: --flag VALUE, --flag=VALUE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::cli {

struct GivenFlag {
  std::string name;        // "--seeds"
  std::string value;       // behind =, else empty
  bool has_value = false;  // the flag was written with =
};
[[nodiscard]] GivenFlag split_flag(const std::string& argument);

// "--sed: no such flag; did you mean --seeds?"; `stray` is said of what is no flag at all.
[[nodiscard]] Result<> known_flag(const std::string& name, const std::vector<std::string>& flags,
                                  std::string_view stray = "");

}  // namespace loch::cli
