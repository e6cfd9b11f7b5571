// loch explore --family: every scenario of a family, from every arrangement of the table.
#pragma once

#include "app/cli/explore_flags.h"
#include "common/kv/protocol.h"

namespace loch::cli {

// Exit status 0: all complete, nothing found; 1: found; 3: a bound was reached; 2: bad input.
[[nodiscard]] int run_explore_family(const ExploreFlags& flags, const kv::Registry& registry);

}  // namespace loch::cli
