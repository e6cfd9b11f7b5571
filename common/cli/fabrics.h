// Opens the fabric that the flags ask for, with its decorators.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/cli/bench_options.h"
#include "common/cluster/control.h"
#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::cli {

// Which process of how many this is.
struct Place {
  std::uint32_t rank = 0, ranks = 1;
  std::string job;
  cluster::Control* control = nullptr;  // verbs over several processes
};

struct OpenFabric {
  std::unique_ptr<fabric::TraceWriter> trace;  // outlives the fabric; close() after the run
  std::unique_ptr<fabric::Fabric> fabric;
  std::string hardware;     // profile name, sim only
  std::uint32_t cores = 0;  // to pin workers to; 0: not pinned
};

// Refuses an unknown hardware profile, a bad faults file, or more processes than the fabric can use.
[[nodiscard]] Result<OpenFabric> open_fabric(const BenchOptions& options, std::uint64_t seed,
                                             const Place& place);

// Refuses an unknown hardware profile and bad files that the flags name; opens nothing.
[[nodiscard]] Result<> check_files(const BenchOptions& options);

}  // namespace loch::cli
