// loch list: what this build has, one line each or as JSON.
#pragma once

#include <string>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::cli {

// protocols, fabrics, hardware, workloads, experiments, mutants, holes. Returns the exit status.
[[nodiscard]] int run_list(const std::vector<std::string>& arguments, const kv::Registry& registry);

// The folder that holds experiments/ and workloads/: $LOCH_HOME, else the source folder.
[[nodiscard]] std::string home_folder();

}  // namespace loch::cli
