// memcached and Redis, as protocols of the same load generator (README of the room: docs/protocols.md).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::baselines {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::baselines
