// What this build has: protocols and fabrics, by name. Made in main; nothing registers itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/kv/protocol.h"

namespace loch::cli {

// Every protocol module that this binary was built with.
[[nodiscard]] kv::Registry make_registry();

[[nodiscard]] const std::vector<std::string>& fabric_names();

// The module; else one line with the nearest name.
[[nodiscard]] Result<const kv::Module*> find_protocol(const kv::Registry& registry, std::string_view name);
[[nodiscard]] Result<> find_fabric(std::string_view name);

}  // namespace loch::cli
