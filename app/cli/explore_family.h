// `loch explore` --family: explores every scenario of a family, from every initial placement of the keys in
// the table.
#pragma once

#include "app/cli/explore_flags.h"
#include "common/kv/protocol.h"

namespace loch::cli {

// Exit status: 0: every scenario was explored completely, without a violation; 1: violation found; 2: bad
// input; 3: a bound was reached; 130: interrupted.
[[nodiscard]] int run_explore_family(const ExploreFlags& flags, const kv::Registry& registry);

}  // namespace loch::cli
