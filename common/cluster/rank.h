// The entry point of one rank of a launch over several machines (or processes).
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/control.h"
#include "common/cluster/launch_env.h"

namespace loch::cluster {

// Names the environment variable with the folder over which the ranks exchange messages if they do not use
// PMIx.
inline constexpr const char* rendezvous_variable = "LOCH_RENDEZVOUS";

struct RankConfig {
  std::string label;                 // name in messages, such as "node 1"; if empty, "node RANK"
  Nanos heartbeat = 250'000'000;     // ns between two heartbeats of a rank's launcher process
  Nanos lost_after = 5'000'000'000;  // silence in ns after which a rank counts as lost
  // time in ns within which every rank must have joined
  Nanos setup_within = 60'000'000'000;
  // How often a child is restarted after it was killed by a signal (except SIGINT, SIGTERM and SIGHUP).
  std::uint32_t restarts = 0;
};

// Returns the default configuration, with lost_after from the environment variable LOCH_LOST_AFTER
// ("20s") if that is set. A text that is no duration, or a duration of at most two heartbeats, is an
// error that names the variable.
[[nodiscard]] Result<RankConfig> rank_config();

// Forks. The child process runs `work` with a Control (collectives and messages between the ranks) and exits
// with the status that `work` returns; it never calls PMIx. This process becomes the rank's launcher process:
// it uses TCP (and PMIx to find the others) or a shared folder, forwards messages between its child and the
// other launchers, and stays until the work of every rank has ended or is lost.
//
// Returns the child's exit status; 0 if the child was killed (its death is a result, reported to the other
// ranks); 1, with a line on standard error, if the ranks do not find each other. If the launcher process of
// any rank was lost, this function exits with that status instead of returning, because PMIx_Finalize may
// wait for it.
//
// With `restarts`, a killed child is restarted: the same program with its arguments, environment and current
// folder. Its main() calls this function again, which runs `work` with a Control that has the number of the
// new incarnation (Control::incarnation). No state of the former incarnation is left.
//
// A launcher process that gets no CPU time appears silent. With many more ranks than cores (such as a dozen
// ranks on two busy cores), set LOCH_LOST_AFTER to a longer time.
//
// To be called before the process has threads. A launch of one rank runs `work` in this process.
[[nodiscard]] int run_as_rank(const LaunchEnv& env, const RankConfig& config,
                              const std::function<int(Control&)>& work);

}  // namespace loch::cluster
