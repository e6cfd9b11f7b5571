// The protocols and fabrics of this build by name. main() makes the registry; modules do not register
// themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/kv/protocol.h"

namespace loch::cli {

// All protocol modules that this binary was built with.
[[nodiscard]] kv::Registry make_registry();

[[nodiscard]] const std::vector<std::string>& fabric_names();

// The module of that name; the error's line suggests the most similar name.
[[nodiscard]] Result<const kv::Module*> find_protocol(const kv::Registry& registry, std::string_view name);
[[nodiscard]] Result<> find_fabric(std::string_view name);

}  // namespace loch::cli
