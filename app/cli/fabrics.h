// Opens the fabric that the flags ask for, wrapped in its decorators.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/bench_options.h"
#include "app/cli/placing.h"
#include "common/base/result.h"
#include "common/cluster/control.h"
#include "common/fabric/background/background.h"
#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"
#include "workloads/pinning.h"

namespace loch::cli {

// This process's position among the processes of the run.
struct Place {
  std::uint32_t rank = 0, ranks = 1;
  std::uint32_t rank_here = 0;   // rank of this process among those on the same machine
  std::uint32_t ranks_here = 0;  // number of processes on this machine; 0: the launcher does not say
  std::string job;
  cluster::Control* control = nullptr;  // control plane; set if several processes run on verbs or ofi
};

// A process to kill, as `kill -9` does, at a time after the load's begin; given in a faults file.
struct ProcessKill {
  fabric::NodeId node = 0;
  Nanos at = 0;
};

struct OpenFabric {
  // The trace writer is declared first, because it has to outlive the fabric. Its close() is to be called
  // after the run.
  std::unique_ptr<fabric::TraceWriter> trace;
  std::unique_ptr<fabric::Fabric> fabric;
  fabric::Fabric* bare_shm =
      nullptr;                     // the shm fabric inside the decorators of `fabric`; null: another fabric
  std::string hardware;            // name of the hardware profile; empty unless the fabric is sim
  workloads::Pinning pinning;      // the cores that workers are pinned to
  std::optional<Placing> placing;  // how workers and memory are placed on this machine; empty on sim
  // The cores of this machine that background workers are pinned to; empty: not pinned, or the fabric is sim,
  // whose background workers run on simulated cores.
  std::vector<std::uint32_t> background_cores;
  // The fabric decorator that runs background workers, if there are any, during the load; null on sim.
  const background::BackgroundFabric* alongside = nullptr;
  std::string caveat;              // warning that precedes the result's other caveats; empty: none
  std::vector<ProcessKill> kills;  // scheduled kills; each names the node whose process is killed
};

// Starts the background workers, and then opens the fabric. Has to be called from the process's main thread.
// Fails on an unknown hardware profile, a bad faults file, or more processes than the fabric can use.
[[nodiscard]] Result<OpenFabric> open_fabric(const BenchOptions& options, std::uint64_t seed,
                                             const Place& place);

// Checks what the flags name without opening a fabric: fails on an unknown hardware profile, bad files, and
// workers or background workers that have no core.
[[nodiscard]] Result<> check_files(const BenchOptions& options);

}  // namespace loch::cli
