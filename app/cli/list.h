// `loch list`: the parts of this build, one per line or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/fabric/fault/fault_file.h"
#include "common/kv/protocol.h"
#include "common/settings/command.h"

namespace loch::cli {

// The table of `loch list`: one operand, and one flag, whose value is stored into `as_json`.
[[nodiscard]] settings::Command list_command(bool& as_json);
// Runs `loch list`; the operand is protocols, fabrics, hardware, workloads, experiments, mutants, holes
// (known faults of published designs) and so on. Returns the exit status.
[[nodiscard]] int run_list(const std::vector<std::string>& arguments, const kv::Registry& registry);

// A protocol as JSON: name, paper, consistency, default number of servers, and what it needs of a device with
// default options.
[[nodiscard]] nlohmann::ordered_json protocol_facts(const kv::Module& module);

// Names of the fabrics on which this fault can be injected, such as "sim, shm, verbs".
[[nodiscard]] std::string fault_fabrics(const fabric::FaultKey& key);

// The folder that contains experiments/ and workloads/: $LOCH_HOME, or else the source folder.
[[nodiscard]] std::string home_folder();

}  // namespace loch::cli
