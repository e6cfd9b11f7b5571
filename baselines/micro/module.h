// Microbenchmarks as protocols of the same load generator: an operation is traffic of one kind, and
// nothing is stored. docs/protocols/micro-verbs.md.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::micro {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::micro
