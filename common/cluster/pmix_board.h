// A board (a place where launcher processes leave items for each other) of PMIx: items are published to, and
// looked up at, the daemons of mpirun, with which each process that mpirun has started is connected anyway.
// pmix_board.cc is the only file of Loch that calls PMIx.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/cluster/board.h"
#include "common/cluster/launch_env.h"

namespace loch::cluster {

// Loads libpmix.so.2, which the program does not need otherwise, connects to mpirun's daemon, and checks that
// PMIx reports the same rank as the environment variables.
[[nodiscard]] Result<std::unique_ptr<Board>> open_pmix_board(const LaunchEnv& env);

}  // namespace loch::cluster
