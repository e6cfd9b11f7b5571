// loch list: what this build has, one line each or as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/fabric/fault/fault_file.h"
#include "common/kv/protocol.h"
#include "common/settings/command.h"

namespace loch::cli {

// The table of its operand and its flag, whose place is `as_json`.
[[nodiscard]] settings::Command list_command(bool& as_json);
// protocols, fabrics, hardware, workloads, experiments, mutants, holes. Returns the exit status.
[[nodiscard]] int run_list(const std::vector<std::string>& arguments, const kv::Registry& registry);

// A protocol's name, paper, consistency, default servers, and needs of a device with its default options.
[[nodiscard]] nlohmann::ordered_json protocol_facts(const kv::Module& module);

// The fabrics on which this fault can be injected: "sim, shm, verbs".
[[nodiscard]] std::string fault_fabrics(const fabric::FaultKey& key);

// The folder that holds experiments/ and workloads/: $LOCH_HOME, else the source folder.
[[nodiscard]] std::string home_folder();

}  // namespace loch::cli
