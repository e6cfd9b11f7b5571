// loch explore: every interleaving of the real code for a small scenario.
#pragma once

#include <string>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::cli {

// Exit status: 0 complete, nothing found; 1 found; 2 bad input; 3 a bound was reached; 130 interrupted.
[[nodiscard]] int run_explore(const std::vector<std::string>& arguments, const kv::Registry& registry);

}  // namespace loch::cli
