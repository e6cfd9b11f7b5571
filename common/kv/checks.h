// Checks of a deployment that several protocols make. Each refusal is an error of one line that names the
// flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// The error of a configuration that is impossible.
[[nodiscard]] std::unexpected<Error> refuse(std::string message);
// Client workers with a window, and keys of 1 to 4096 bytes.
[[nodiscard]] Result<> check_clients(std::string_view protocol, const DeployConfig& config);
// … and no server workers.
[[nodiscard]] Result<> check_client_driven(std::string_view protocol, const DeployConfig& config);
// A table for at least as many records as are preloaded.
[[nodiscard]] Result<> check_preload(const DeployConfig& config);
// Memory for the `need` bytes that the tables take of each node.
[[nodiscard]] Result<> check_memory(const DeployConfig& config, std::uint64_t need);

}  // namespace loch::kv
