// farm-em and farm-em-var: FaRM as emulated by HERD's paper of 2014 (section 5.1).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::farm {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::farm
