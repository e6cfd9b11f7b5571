// Writes and parses the JSON by which processes tell each other their nodes, regions and queue pairs.
#include "common/fabric/verbs/endpoint.h"

#include <fmt/format.h>

#include "common/fabric/processes/json_fields.h"

namespace loch::fabric::verbs {
namespace {

using namespace processes::fields;

constexpr std::uint64_t qpn_most = (1u << 24) - 1;
constexpr std::size_t name_most = 128, regions_most = 4096, workers_most = 65536, links_most = 1 << 22;

NodeId node_in(const Json& object, const char* name, const Limits& limits) {
  return static_cast<NodeId>(number_in(object, name, limits.nodes - 1));
}

Json address_json(const Address& address) {
  Json json = {{"lid", address.lid}, {"gid", address.gid}, {"mtu", address.mtu_bytes}};
  if (address.needs_grh) json["grh"] = true;
  return json;
}

Address address_of(const Json& json) {
  Address address;
  address.lid = static_cast<std::uint16_t>(number_in(json, "lid", u16_most));
  const Json& gid = array_in(json, "gid", address.gid.size());
  if (gid.size() != address.gid.size()) throw Malformed{"gid: expected 16 bytes"};
  for (std::size_t i = 0; i < gid.size(); ++i)
    address.gid[i] = static_cast<std::uint8_t>(number(gid[i], "gid", 255));
  address.needs_grh = flag_in(json, "grh");
  address.mtu_bytes = static_cast<std::uint32_t>(number_in(json, "mtu", 4096));
  if (address.mtu_bytes < 256 || (address.mtu_bytes & (address.mtu_bytes - 1)) != 0)
    throw Malformed{"mtu: expected 256, 512, 1024, 2048 or 4096"};
  return address;
}

// A sender on the first rail is its queue pair number, one on another rail is [number, rail].
Json senders_json(const std::vector<DatagramSender>& senders) {
  Json list = Json::array();
  for (const DatagramSender& sender : senders)
    list.push_back(sender.rail == 0 ? Json(sender.qpn) : Json::array({sender.qpn, sender.rail}));
  return list;
}

DatagramSender sender_of(const Json& json) {
  if (!json.is_array()) return {static_cast<std::uint32_t>(number(json, "ud_also", qpn_most)), 0};
  if (json.size() != 2) throw Malformed{"ud_also: expected a queue pair number, or that and a rail"};
  return {static_cast<std::uint32_t>(number(json[0], "ud_also", qpn_most)),
          static_cast<std::uint8_t>(number(json[1], "ud_also", rails_most - 1))};
}

Json node_json(const NodeRecord& node) {
  Json regions = Json::array(), workers = Json::array();
  for (const RegionRecord& region : node.regions) {
    regions.push_back(
        {{"name", region.name}, {"address", region.address}, {"bytes", region.bytes}, {"rkey", region.rkey}});
  }
  for (const WorkerRecord& worker : node.workers) {
    workers.push_back({{"index", worker.index}, {"ud_qpn", worker.ud_qpn}});
    if (!worker.ud_also.empty()) workers.back()["ud_also"] = senders_json(worker.ud_also);
  }
  Json json = {{"node", node.node},
               {"life", node.incarnation},
               {"address", address_json(node.addresses.at(0))},
               {"rd_atomic_in", node.rd_atomic_in},
               {"rd_atomic_out", node.rd_atomic_out},
               {"qkey", node.qkey},
               {"regions", regions},
               {"workers", workers}};
  for (std::size_t rail = 1; rail < node.addresses.size(); ++rail)
    json["further_addresses"].push_back(address_json(node.addresses[rail]));
  return json;
}

NodeRecord node_of(const Json& json, const Limits& limits) {
  NodeRecord node;
  node.node = node_in(json, "node", limits);
  node.incarnation = static_cast<std::uint32_t>(number_in(json, "life", u32_most));
  node.addresses.push_back(address_of(member(json, "address")));
  if (json.contains("further_addresses")) {
    for (const Json& address : array_in(json, "further_addresses", rails_most - 1))
      node.addresses.push_back(address_of(address));
  }
  node.rd_atomic_in = static_cast<std::uint32_t>(number_in(json, "rd_atomic_in", 255));
  node.rd_atomic_out = static_cast<std::uint32_t>(number_in(json, "rd_atomic_out", 255));
  node.qkey = static_cast<std::uint32_t>(number_in(json, "qkey", u32_most));
  for (const Json& region : array_in(json, "regions", regions_most)) {
    node.regions.push_back({text_in(region, "name", name_most),
                            number_in(region, "address", ~std::uint64_t{0}),
                            number_in(region, "bytes", ~std::uint64_t{0}),
                            static_cast<std::uint32_t>(number_in(region, "rkey", u32_most))});
    const RegionRecord& last = node.regions.back();
    if (last.bytes == 0 || last.address + last.bytes < last.address)
      throw Malformed{fmt::format("region {}: expected bytes within the address space", last.name)};
  }
  for (const Json& worker : array_in(json, "workers", workers_most)) {
    node.workers.push_back({static_cast<std::uint16_t>(number_in(worker, "index", u16_most)),
                            static_cast<std::uint32_t>(number_in(worker, "ud_qpn", qpn_most)),
                            {}});
    if (!worker.contains("ud_also")) continue;
    for (const Json& sender : array_in(worker, "ud_also", ud_lanes_most * rails_most))
      node.workers.back().ud_also.push_back(sender_of(sender));
  }
  return node;
}

// One end of a queue pair as a JSON list: [node, worker, peer, peer worker, lane, transport, qpn, psn], where
// `lane` numbers the queue pairs between the same two workers. A list, not an object with named fields, to
// save space: a run may have millions of queue pairs.
Json link_json(const LinkRecord& link) {
  const LinkKey& key = link.key;
  return {key.node, key.worker, key.peer, key.peer_worker, key.lane, static_cast<unsigned>(key.transport),
          link.qpn, link.psn};
}

LinkRecord link_of(const Json& json, const Limits& limits) {
  if (!json.is_array() || json.size() != 8) throw Malformed{"link: expected a list of 8"};
  const auto at = [&](std::size_t i, std::uint64_t most) { return number(json[i], "link", most); };
  LinkRecord link;
  link.key = {static_cast<NodeId>(at(0, limits.nodes - 1)), static_cast<std::uint16_t>(at(1, u16_most)),
              static_cast<NodeId>(at(2, limits.nodes - 1)), static_cast<std::uint16_t>(at(3, u16_most)),
              static_cast<std::uint8_t>(at(4, 63)),         static_cast<Transport>(at(5, 1))};
  link.qpn = static_cast<std::uint32_t>(at(6, qpn_most));
  link.psn = static_cast<std::uint32_t>(at(7, qpn_most));
  return link;
}

bool has_record(Notice::Kind kind) { return kind == Notice::Kind::back || kind == Notice::Kind::here; }

}  // namespace

std::string to_text(const NodeRecord& node) { return node_json(node).dump(); }

Result<NodeRecord> parse_node(std::string_view text, const Limits& limits) {
  return guarded<NodeRecord>(text, "a node's record",
                             [&](const Json& json) { return node_of(json, limits); });
}

std::string to_text(const std::vector<LinkRecord>& links) {
  Json json = Json::array();
  for (const LinkRecord& link : links) json.push_back(link_json(link));
  return json.dump();
}

Result<std::vector<LinkRecord>> parse_links(std::string_view text, const Limits& limits) {
  return guarded<std::vector<LinkRecord>>(text, "ends of queue pairs", [&](const Json& json) {
    if (!json.is_array() || json.size() > links_most) throw Malformed{"expected a list"};
    std::vector<LinkRecord> links;
    for (const Json& link : json) links.push_back(link_of(link, limits));
    return links;
  });
}

std::string to_text(const Notice& notice) {
  Json json = {{"kind", static_cast<unsigned>(notice.kind)},
               {"link", link_json(notice.link)},
               {"node", notice.node},
               {"number", notice.number}};
  if (has_record(notice.kind)) json["record"] = node_json(notice.record);
  return json.dump();
}

Result<Notice> parse_notice(std::string_view text, const Limits& limits) {
  return guarded<Notice>(text, "a notice", [&](const Json& json) {
    Notice notice;
    notice.kind =
        static_cast<Notice::Kind>(number_in(json, "kind", static_cast<std::uint64_t>(Notice::Kind::here)));
    notice.link = link_of(member(json, "link"), limits);
    notice.node = node_in(json, "node", limits);
    notice.number = number_in(json, "number", ~std::uint64_t{0});
    if (has_record(notice.kind)) notice.record = node_of(member(json, "record"), limits);
    return notice;
  });
}

}  // namespace loch::fabric::verbs
