// `loch explore`: runs a protocol's own code in every interleaving of a small scenario.
#pragma once

#include <string>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::cli {

// Exit status: 0: complete, no violation; 1: violation found; 2: bad input; 3: a bound was reached; 130:
// interrupted.
[[nodiscard]] int run_explore(const std::vector<std::string>& arguments, const kv::Registry& registry);

}  // namespace loch::cli
