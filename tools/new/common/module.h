// Adds this folder's modules to the registry.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::newstore {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::newstore
