// Refuses deployments for reasons that several protocols share.
#include "common/kv/checks.h"

#include <utility>

#include "common/base/units.h"

namespace loch::kv {

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

Result<> check_clients(std::string_view protocol, const DeployConfig& config) {
  if (config.nodes == 0 || config.client_workers == 0 || config.window == 0) {
    return refuse(
        "clients: {} is client-driven; expected at least 1 client worker and a window of at least 1",
        protocol);
  }
  if (config.key_size == 0 || config.key_size > 4096)
    return refuse("key-size: {} bytes; expected 1 to 4096", config.key_size);
  return {};
}

Result<> check_client_driven(std::string_view protocol, const DeployConfig& config) {
  LOCH_TRY(check_clients(protocol, config));
  if (config.server_workers == 0) return {};
  return refuse("servers: {} has no server workers, {} were asked for; expected 0", protocol,
                config.server_workers);
}

Result<> check_preload(const DeployConfig& config) {
  if (config.max_keys >= config.keys) return {};
  return refuse("keys: {} are preloaded but the table is made for {}", config.keys, config.max_keys);
}

Result<> check_memory(const DeployConfig& config, std::uint64_t need) {
  if (config.memory_bytes == 0 || need <= config.memory_bytes) return {};
  return refuse("keys: {} keys with values of {} bytes take {} bytes of each of {} nodes, which have {}",
                config.max_keys, config.value_size, need, config.serving_nodes(), config.memory_bytes);
}

Result<> check_backoff(const std::string& protocol, const Options& options) {
  const Nanos start = options.integer(protocol + ".backoff-start"),
              cap = options.integer(protocol + ".backoff-cap");
  if (start <= cap) return {};
  return refuse("{0}.backoff-cap: {1} is below {0}.backoff-start, {2}; expected at least as much", protocol,
                format_duration(cap), format_duration(start));
}

}  // namespace loch::kv
