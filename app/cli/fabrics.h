// Opens the fabric that the flags ask for, with its decorators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "common/base/result.h"
#include "common/cluster/control.h"
#include "common/fabric/background/background.h"
#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"
#include "workloads/pinning.h"

namespace loch::cli {

// Which process of how many this is.
struct Place {
  std::uint32_t rank = 0, ranks = 1;
  std::uint32_t rank_here = 0;  // number of this process among those on this machine
  std::string job;
  cluster::Control* control = nullptr;  // verbs over several processes
};

// A process that a faults file kills: so long after the load began, as `kill -9` does.
struct ProcessKill {
  fabric::NodeId node = 0;
  Nanos at = 0;
};

struct OpenFabric {
  std::unique_ptr<fabric::TraceWriter> trace;  // outlives the fabric; close() after the run
  std::unique_ptr<fabric::Fabric> fabric;
  std::string hardware;                                     // profile name, sim only
  workloads::Pinning pinning;                               // of workers to cores
  const background::BackgroundFabric* alongside = nullptr;  // `fabric`, where it runs in real time
  std::vector<ProcessKill> kills;                           // of real processes, one per node
};

// The cores of this machine that --hogs are pinned to in real time; none: not pinned. On sim they are the
// simulated machine's affair.
[[nodiscard]] Result<std::vector<std::uint32_t>> background_cores(const BenchOptions& options);

// Starts the background workers, too: before anything of the fabric is there. Call it from the process's main
// thread. Refuses an unknown hardware profile, a bad faults file, or more processes than the fabric can use.
[[nodiscard]] Result<OpenFabric> open_fabric(const BenchOptions& options, std::uint64_t seed,
                                             const Place& place);

// Refuses an unknown hardware profile, bad files that the flags name, and background workers that have no
// core; opens nothing.
[[nodiscard]] Result<> check_files(const BenchOptions& options);

}  // namespace loch::cli
