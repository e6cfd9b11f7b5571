// The entry point of a rank whose fabric spans several machines.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/control.h"
#include "common/cluster/launch_env.h"

namespace loch::cluster {

struct RankConfig {
  std::string label;                    // "node 1": named in messages; empty: "node RANK"
  Nanos heartbeat = 250'000'000;        // between two signs of life of a rank's launcher process
  Nanos lost_after = 5'000'000'000;     // silence after which a rank counts as lost
  Nanos setup_within = 60'000'000'000;  // every rank must have come, MPI_Init included
  // How often a child that was killed by a signal (SIGINT, SIGTERM and SIGHUP excepted) is started again.
  std::uint32_t restarts = 0;
};

// The defaults, with what the environment says: LOCH_LOST_AFTER, "20s". A text that is no time, or not
// longer than two heartbeats, is an error that names the variable.
[[nodiscard]] Result<RankConfig> rank_config();

// Forks. The child runs `work` with a Control and exits with what it returns; it never calls MPI. This
// process becomes the rank's launcher: it holds MPI, passes messages between its child and the other
// launchers, and stays until the work of every rank has ended or is lost.
//
// Returns the child's exit status; 0 when it was killed (its death is a result, told to the others),
// and 1 when the ranks do not find each other, with a line on standard error. Where somebody's
// launcher was lost it does not return but exits with that status: MPI_Finalize would wait for ever,
// and so would MPI's own exit handlers.
//
// With `restarts`, a killed child is started again: this program anew, with its arguments, its
// environment and its present folder. Its main comes here too, and `work` runs with a Control that says
// which incarnation it is (Control::incarnation). It has nothing of its former incarnation.
//
// A launcher that gets no processor is silent too: where ranks are many more than cores (a dozen on
// two busy ones, say), lost_after is to be longer: LOCH_LOST_AFTER.
//
// Call it before the process has threads. A launch of one rank runs `work` right here.
[[nodiscard]] int run_as_rank(const LaunchEnv& env, const RankConfig& config,
                              const std::function<int(Control&)>& work);

}  // namespace loch::cluster
