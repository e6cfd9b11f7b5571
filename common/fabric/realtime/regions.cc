// Checks regions and nodes while a real-time fabric is set up, and makes the one-line errors that all such
// fabrics share.
#include "common/fabric/realtime/regions.h"

#include <fmt/format.h>

namespace loch::fabric::realtime {

std::unexpected<Error> refuse_region(NodeId node, const RegionSpec& spec, ErrorCode code,
                                     std::string_view why) {
  return fail(code, fmt::format("region \"{}\" of node {}: {}", spec.name, node, why));
}

std::unexpected<Error> refuse_worker(const WorkerSpec& spec, ErrorCode code, std::string_view why) {
  return fail(code, fmt::format("worker {} of node {}: {}", spec.index, spec.node, why));
}

std::unexpected<Error> unknown_region(NodeId node, std::string_view region, bool is_exchanged) {
  return fail(ErrorCode::not_found,
              fmt::format("region \"{}\" of node {}: {}", region, node,
                          is_exchanged ? "not registered" : "looked up before the exchange"));
}

Result<> check_region(NodeId node, const RegionSpec& spec, Stage when, bool is_taken) {
  const auto refuse = [&](std::string_view why) {
    return refuse_region(node, spec, ErrorCode::invalid_argument, why);
  };
  if (!when.is_local) return refuse("the node is not of this process");
  if (when.is_exchanged) return refuse("registered after the exchange");
  if (spec.bytes == 0) return refuse("has no bytes");
  if (is_taken) return refuse("the name is taken");
  if (spec.name.empty() || spec.name.size() > region_name_most)
    return refuse(fmt::format("the name has 1 to {} characters", region_name_most));
  return {};
}

Result<> check_worker(const WorkerSpec& spec, Stage when) {
  const auto refuse = [&](std::string_view why) {
    return refuse_worker(spec, ErrorCode::invalid_argument, why);
  };
  if (!when.is_local) return refuse("the node is not of this process");
  if (when.is_exchanged) return refuse("added after the exchange");
  return {};
}

Result<> check_nodes(std::string_view fabric, std::uint32_t nodes, std::optional<std::uint32_t> processes) {
  if (nodes == 0 || nodes > 4096) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: {} nodes; expected 1 to 4096", fabric, nodes));
  }
  if (processes && *processes != nodes) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} processes for {} nodes; each process is one node", fabric, *processes, nodes));
  }
  return {};
}

}  // namespace loch::fabric::realtime
