// Checks of a deployment that several protocols make. Each refusal is an error of one line that names the
// flag.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// The error that refuses an impossible deployment, with `message` as its text.
[[nodiscard]] std::unexpected<Error> refuse(std::string message);
// The same error, with a text that is formatted from the arguments.
template <typename First, typename... Rest>
[[nodiscard]] std::unexpected<Error> refuse(fmt::format_string<First, Rest...> text, First&& first,
                                            Rest&&... rest) {
  return refuse(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}
// Requires at least one client worker and one outstanding operation (`window`) per client worker, and keys of
// 1 to 4096 bytes.
[[nodiscard]] Result<> check_clients(std::string_view protocol, const DeployConfig& config);
// Requires the same as check_clients(), and that there are no server workers.
[[nodiscard]] Result<> check_client_driven(std::string_view protocol, const DeployConfig& config);
// Requires a table for at least as many records as are preloaded.
[[nodiscard]] Result<> check_preload(const DeployConfig& config);
// Requires that each node has memory for the `need` bytes that the tables take of it.
[[nodiscard]] Result<> check_memory(const DeployConfig& config, std::uint64_t need);
// Requires of the options PROTOCOL.backoff-start and PROTOCOL.backoff-cap that the first is not above the
// second.
[[nodiscard]] Result<> check_backoff(const std::string& protocol, const Options& options);

}  // namespace loch::kv
