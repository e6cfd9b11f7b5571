// drtm-em: the emulation of DrTM-KV in "Design Guidelines for High Performance RDMA Systems" (2016, section
// 4.3.2).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::drtm {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::drtm
