// Writes and parses the JSON in which nodes report their pings.
#include "common/fabric/ping/pings.h"
#include "common/fabric/processes/json_fields.h"

namespace loch::fabric::ping {
namespace {

using namespace processes::fields;

constexpr std::uint64_t count_most = std::uint64_t{1} << 53;

Json seen_json(const Seen& seen) {
  return {seen.pings, seen.replies, seen.median, seen.messages, seen.bursts, seen.arrived};
}

Seen seen_of(const Json& json) {
  constexpr std::size_t fields = 6;
  if (!json.is_array() || json.size() != fields) throw Malformed{"of: expected six numbers of a transport"};
  const auto at = [&json](std::size_t i) { return number(json[i], "of", count_most); };
  return {.pings = at(0),
          .replies = at(1),
          .median = static_cast<Nanos>(at(2)),
          .messages = at(3),
          .bursts = static_cast<Nanos>(at(4)),
          .arrived = at(5)};
}

}  // namespace

std::string to_text(const NodeSeen& seen) {
  Json peers = Json::array();
  for (const auto& peer : seen.of) {
    Json all = Json::array();
    for (const Seen& one : peer) all.push_back(seen_json(one));
    peers.push_back(std::move(all));
  }
  return Json{{"node", seen.node}, {"of", std::move(peers)}}.dump();
}

Result<NodeSeen> parse_seen(std::string_view text, std::uint32_t nodes) {
  return guarded<NodeSeen>(text, "a node's pings", [nodes](const Json& json) {
    NodeSeen seen;
    seen.node = static_cast<NodeId>(number_in(json, "node", nodes - 1));
    const Json& peers = array_in(json, "of", nodes);
    if (peers.size() != nodes) throw Malformed{"of: expected an entry for each node"};
    for (const Json& peer : peers) {
      if (!peer.is_array() || peer.size() != transports.size())
        throw Malformed{"of: expected an entry for each transport"};
      auto& entry = seen.of.emplace_back();
      for (std::size_t t = 0; t < transports.size(); ++t) entry[t] = seen_of(peer[t]);
    }
    return seen;
  });
}

}  // namespace loch::fabric::ping
