// The protocols of this build: those of the source tree and those of additional folders. The build system
// generates the function's definition (cmake/Protocols.cmake).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::kv {

void add_protocols(std::vector<std::unique_ptr<Module>>& modules);

}  // namespace loch::kv
