// The protocols of this build: those of the source tree and those of additional folders. The definition is
// generated (cmake/Protocols.cmake), so that no source file lists them.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::kv {

void add_protocols(std::vector<std::unique_ptr<Module>>& modules);

}  // namespace loch::kv
