// loch-bench describe: one document with every setting of this build (commands' flags, protocols' options,
// faults, constants of hardware profiles, keys of workload files) and its type, range, default and help. The
// Python tools, the JSON Schema of experiments and docs/settings.md are made from it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/settings/command.h"
#include "common/settings/setting.h"

namespace loch::cli {

// One setting as JSON: key, type, placeholder, help and, where the setting has them, default, minimum and
// maximum (sizes in bytes, times in nanoseconds), choices, unit, role, source, aliases (other accepted
// names).
[[nodiscard]] nlohmann::ordered_json to_json(const settings::Setting& setting);

// The whole document, an object with the keys "schema" (always 1), "flags" (those of bench), "commands" (each
// with its operands, flags, exit statuses and an example), "protocols", "faults", "hardware" and "workload".
[[nodiscard]] nlohmann::ordered_json describe(const kv::Registry& registry,
                                              const std::vector<settings::Command>& commands);

struct DescribeFlags {
  bool as_json = false, as_page = false;
  std::string hardware;  // name or file of the profile whose constants are printed; empty: none
};
// The table of `describe`'s flags. Parsing stores into `flags`, which has to outlive the table.
[[nodiscard]] settings::Command describe_command(DescribeFlags& flags);

// Runs `describe [--json|--markdown]`: prints the JSON document, or the page docs/settings.md; with
// `--hardware NAME|FILE` a JSON object with that profile's constants instead. `commands` are all commands of
// the program.
[[nodiscard]] int run_describe(const std::vector<std::string>& arguments, const kv::Registry& registry,
                               const std::vector<settings::Command>& commands);

}  // namespace loch::cli
