// The bulletin (bulletin.h) of the ranks that mpirun has started: what a rank puts and commits by PMIx, the
// daemons that mpirun runs on each host give to every other rank of the launch.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/cluster/bulletin.h"
#include "common/cluster/launch_env.h"

namespace loch::cluster {

// Loads libpmix.so.2 and connects to the daemon that started this process; may wait for it for ever.
[[nodiscard]] Result<std::unique_ptr<Bulletin>> open_pmix_bulletin(const LaunchEnv& env);

}  // namespace loch::cluster
