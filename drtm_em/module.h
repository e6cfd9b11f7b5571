// drtm-em: DrTM-KV as emulated by the guidelines of 2016 (section 4.3.2).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::drtm {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::drtm
