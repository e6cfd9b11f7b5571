// race: RACE hashing, an extendible hash table in the memory of nodes whose CPUs take no part in operations.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::race {

[[nodiscard]] std::unique_ptr<kv::Module> make_module();
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::race
