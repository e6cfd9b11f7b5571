// HERD (2014) with the improvements of the guidelines of 2016, as a protocol module.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::herd {

[[nodiscard]] std::unique_ptr<kv::Module> make_module();
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::herd
