// The options of allocation in chunks, and the ChunkPlan that follows from them and from a deployment's
// sizes.
#include "common/chunks/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/chunks/wire.h"

namespace loch::chunks {
namespace {

constexpr std::string_view allocation = ".allocation";

// Whether the protocol's option of this name (of any protocol) has this value.
bool has_choice(const kv::Options& options, std::string_view name, std::string_view value) {
  return std::ranges::any_of(options.specs(), [&](const kv::OptionSpec& spec) {
    return spec.key.ends_with(name) && options.choice(spec.key) == value;
  });
}

kv::OptionSpec alloc_timeout(const std::string& protocol) {
  kv::OptionSpec spec =
      settings::of(kv::OptionType::duration, protocol + ".alloc-timeout", "1s",
                   "how long an ALLOC is repeated before its operation ends in an error", 1e3, 1e13);
  spec.initial_in_real_time = "5s";
  spec.role = kv::OptionRole::give_up;
  return spec;
}

}  // namespace

void add_options(std::vector<kv::OptionSpec>& specs, const std::string& protocol) {
  specs.push_back(
      settings::choice(protocol + std::string(allocation), {"preloaded", "chunks"},
                       "free blocks of the nodes: each client worker begins with its share, or asks for "
                       "chunks (--servers 1)"));
  specs.push_back(settings::of(kv::OptionType::integer, protocol + ".chunk-blocks", "64",
                               "blocks that one ALLOC gives a client worker", 1, 1 << 20));
  specs.push_back(settings::of(kv::OptionType::duration, protocol + ".alloc-cpu", "0ns",
                               "CPU time of an ALLOC on its node beside the profile's costs, as a weak core "
                               "takes (spun where it is real)",
                               0, 1e9));
  specs.push_back(alloc_timeout(protocol));
}

std::uint32_t managers(const kv::Options& options) {
  return has_choice(options, allocation, "chunks") ? 1 : 0;
}

bool needs_memory_nodes(const kv::Options& options) { return has_choice(options, ".placement", "remote"); }

Result<> check_unused(const std::string& protocol, const kv::Options& options) {
  if (managers(options) != 0 || options.integer(protocol + ".alloc-cpu") == 0) return {};
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("{0}.alloc-cpu: without chunks no client makes an ALLOC; expected 0, or {0}{1} chunks "
                  "alongside it",
                  protocol, allocation));
}

Result<> check_servers(const std::string& protocol, const kv::DeployConfig& config,
                       const kv::Options& options) {
  LOCH_TRY(check_unused(protocol, options));
  const std::uint32_t wanted = managers(options);
  if (config.server_workers == wanted) return {};
  const std::string what = wanted == 0 ? fmt::format("{} has no server workers", protocol)
                                       : fmt::format(
                                             "{}{} chunks: one server worker of a node gives out its "
                                             "chunks",
                                             protocol, allocation);
  return fail(ErrorCode::invalid_argument, fmt::format("servers: {}, {} were asked for; expected {}", what,
                                                       config.server_workers, wanted));
}

std::optional<ChunkPlan> plan_chunks(const std::string& protocol, const kv::DeployConfig& config,
                                     const kv::Options& options, std::uint64_t first, std::uint64_t blocks) {
  if (managers(options) == 0) return std::nullopt;
  ChunkPlan plan{.first = first,
                 .blocks = blocks,
                 .chunk = static_cast<std::uint32_t>(options.integer(protocol + ".chunk-blocks")),
                 .cpu = options.integer(protocol + ".alloc-cpu"),
                 .serving_nodes = config.serving_nodes(),
                 .server_nodes = config.server_nodes,
                 .client_workers = config.client_workers,
                 .clients = config.driving_nodes() * config.client_workers,
                 .messages = {.name = protocol + ".alloc"}};
  rpc::MessageShape& shape = plan.messages;
  shape.nodes = config.nodes;
  shape.client_workers = config.client_workers;
  // a worker may have one ALLOC request outstanding at each serving node
  shape.window = plan.serving_nodes;
  shape.server_workers = 1;
  shape.server_nodes = config.server_nodes;
  shape.request_bytes = sizeof(Ask);
  shape.reply_bytes = sizeof(Answer);
  // The channel need not drop duplicates: the manager recognises a repeated request by its number, even if
  // the client had given up in between.
  shape.drops_duplicates = false;
  shape.patience = options.integer(protocol + ".alloc-timeout");
  shape.reply_timeout = std::max<Nanos>(1, std::min(shape.reply_timeout, shape.patience / 4));
  shape.reconnect_timeout = shape.reply_timeout;
  return plan;
}

}  // namespace loch::chunks
