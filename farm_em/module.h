// FaRM as HERD's paper of 2014 emulates it (5.1): farm-em and farm-em-var.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::farm {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::farm
