// Microbenchmarks in the form of protocols, so that the stores' load generator can drive them: an operation
// is one kind of traffic, and nothing is stored (docs/protocols/micro-verbs.md).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::micro {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::micro
