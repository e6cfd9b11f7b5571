// Writes and parses the JSON in which processes tell each other the devices of their hosts.
#include "common/fabric/processes/json_fields.h"
#include "common/fabric/verbs/choice.h"

namespace loch::fabric::verbs {
namespace {

using namespace processes::fields;

constexpr std::size_t label_most = 256, text_most = 4096, ports_most = 1024, gids_most = 1024,
                      pkeys_most = 65536;

Json gid_json(const GidEntry& entry) {
  return {{"index", entry.index},
          {"gid", entry.gid},
          {"kind", static_cast<unsigned>(entry.kind)},
          {"prefix", entry.prefix_bits},
          {"vlan", entry.is_vlan}};
}

GidEntry gid_of(const Json& json) {
  GidEntry entry;
  entry.index = static_cast<std::uint32_t>(number_in(json, "index", u16_most));
  const Json& bytes = array_in(json, "gid", entry.gid.size());
  if (bytes.size() != entry.gid.size()) throw Malformed{"gid: expected 16 bytes"};
  for (std::size_t i = 0; i < entry.gid.size(); ++i)
    entry.gid[i] = static_cast<std::uint8_t>(number(bytes[i], "gid", 255));
  entry.kind = static_cast<GidKind>(number_in(json, "kind", static_cast<std::uint64_t>(GidKind::roce_v2)));
  entry.prefix_bits = static_cast<std::uint32_t>(number_in(json, "prefix", is_ipv4(entry.gid) ? 32 : 128));
  entry.is_vlan = flag_in(json, "vlan");
  return entry;
}

Json port_json(const PortOffer& port) {
  Json gids = Json::array();
  for (const GidEntry& entry : port.gids) gids.push_back(gid_json(entry));
  return {{"device", port.device},     {"port", port.number},     {"roce", port.is_roce},
          {"gigabits", port.gigabits}, {"refusal", port.refusal}, {"gids", gids},
          {"pkeys", port.pkeys}};
}

PortOffer port_of(const Json& json) {
  PortOffer port;
  port.device = text_in(json, "device", label_most);
  port.number = static_cast<std::uint32_t>(number_in(json, "port", 255));
  port.is_roce = flag_in(json, "roce");
  const Json& rate = member(json, "gigabits");
  if (!rate.is_number() || rate.get<double>() < 0 || rate.get<double>() > 1e6)
    throw Malformed{"gigabits: expected a number from 0 to 1e6"};
  port.gigabits = rate.get<double>();
  port.refusal = text_in(json, "refusal", text_most);
  for (const Json& gid : array_in(json, "gids", gids_most)) port.gids.push_back(gid_of(gid));
  for (const Json& pkey : array_in(json, "pkeys", pkeys_most))
    port.pkeys.push_back(static_cast<std::uint16_t>(number(pkey, "pkeys", u16_most)));
  return port;
}

Json wish_json(const Wish& wish) {
  Json json = {{"device", wish.device}, {"port", wish.port}};
  if (wish.gid_index >= 0) json["gid_index"] = wish.gid_index;
  if (wish.pkey) json["pkey"] = *wish.pkey;
  return json;
}

Wish wish_of(const Json& json) {
  Wish wish;
  wish.device = text_in(json, "device", text_most);
  wish.port = static_cast<std::uint32_t>(number_in(json, "port", 255));
  if (json.contains("gid_index")) wish.gid_index = static_cast<int>(number_in(json, "gid_index", u16_most));
  if (json.contains("pkey")) wish.pkey = static_cast<std::uint16_t>(number_in(json, "pkey", u16_most));
  return wish;
}

Json can_json(const Capabilities& can) {
  return {{"device", can.device},
          {"rc", can.rc},
          {"uc", can.uc},
          {"ud", can.ud},
          {"receives_connected", can.receives_connected},
          {"atomic_scope", static_cast<unsigned>(can.atomic_scope)},
          {"untorn_bytes", can.untorn_bytes},
          {"in_order_placement", can.in_order_placement},
          {"in_order_reads", can.in_order_reads},
          {"max_rd_atomic", can.max_rd_atomic},
          {"max_inline_bytes", can.max_inline_bytes},
          {"mtu_bytes", can.mtu_bytes},
          {"link", static_cast<unsigned>(can.link)},
          {"send_queue_depth", can.send_queue_depth},
          {"recv_queue_depth", can.recv_queue_depth},
          {"datagram_queue_pairs", can.datagram_queue_pairs},
          {"request_lifetime", can.request_lifetime}};
}

Capabilities can_of(const Json& json) {
  const auto small = [&json](const char* name) {
    return static_cast<std::uint32_t>(number_in(json, name, 1 << 24));
  };
  Capabilities can;
  can.fabric = "verbs";
  can.device = text_in(json, "device", label_most);
  can.rc = flag_in(json, "rc");
  can.uc = flag_in(json, "uc");
  can.ud = flag_in(json, "ud");
  can.receives_connected = flag_in(json, "receives_connected");
  can.atomic_scope = static_cast<AtomicScope>(
      number_in(json, "atomic_scope", static_cast<std::uint64_t>(AtomicScope::global)));
  can.untorn_bytes = small("untorn_bytes");
  can.in_order_placement = flag_in(json, "in_order_placement");
  can.in_order_reads = flag_in(json, "in_order_reads");
  can.max_rd_atomic = small("max_rd_atomic");
  can.max_inline_bytes = small("max_inline_bytes");
  can.mtu_bytes = small("mtu_bytes");
  can.link =
      static_cast<LinkFormat>(number_in(json, "link", static_cast<std::uint64_t>(LinkFormat::roce_v2)));
  can.send_queue_depth = small("send_queue_depth");
  can.recv_queue_depth = small("recv_queue_depth");
  can.datagram_queue_pairs = small("datagram_queue_pairs");
  can.request_lifetime = static_cast<Nanos>(number_in(json, "request_lifetime", 1ull << 62));
  return can;
}

}  // namespace

std::string to_text(const NodeDevice& device) {
  return Json{{"node", device.node},
              {"host", device.host},
              {"port", device.port},
              {"gid", device.gid},
              {"network", device.network},
              {"gigabits", device.gigabits},
              {"pkey", device.pkey},
              {"service_level", device.service_level},
              {"traffic_class", device.traffic_class},
              {"flow_label", device.flow_label},
              {"firmware", device.firmware},
              {"driver", device.driver},
              {"numa_node", device.numa_node < 0 ? Json(nullptr) : Json(device.numa_node)},
              {"can", can_json(device.can)}}
      .dump();
}

Result<NodeDevice> parse_device(std::string_view text) {
  return guarded<NodeDevice>(text, "a node's device", [](const Json& json) {
    NodeDevice device;
    device.node = static_cast<NodeId>(number_in(json, "node", u16_most));
    device.host = text_in(json, "host", label_most);
    device.port = static_cast<std::uint32_t>(number_in(json, "port", 255));
    device.gid = text_in(json, "gid", label_most);
    device.network = text_in(json, "network", label_most);
    const Json& rate = member(json, "gigabits");
    if (!rate.is_number()) throw Malformed{"gigabits: expected a number"};
    device.gigabits = rate.get<double>();
    device.pkey = static_cast<std::uint32_t>(number_in(json, "pkey", u16_most));
    device.service_level = static_cast<std::uint32_t>(number_in(json, "service_level", 15));
    device.traffic_class = static_cast<std::uint32_t>(number_in(json, "traffic_class", 255));
    device.flow_label = static_cast<std::uint32_t>(number_in(json, "flow_label", (1u << 20) - 1));
    device.firmware = text_in(json, "firmware", label_most);
    device.driver = text_in(json, "driver", label_most);
    const Json& numa_node = member(json, "numa_node");
    if (!numa_node.is_null()) device.numa_node = static_cast<int>(number(numa_node, "numa_node", u16_most));
    device.can = can_of(member(json, "can"));
    return device;
  });
}

std::string to_text(const HostOffer& offer) {
  Json ports = Json::array();
  for (const PortOffer& port : offer.ports) ports.push_back(port_json(port));
  return Json{{"host", offer.host}, {"wish", wish_json(offer.wish)}, {"ports", ports}}.dump();
}

Result<HostOffer> parse_offer(std::string_view text) {
  return guarded<HostOffer>(text, "what a host offers", [](const Json& json) {
    HostOffer offer;
    offer.host = text_in(json, "host", label_most);
    offer.wish = wish_of(member(json, "wish"));
    for (const Json& port : array_in(json, "ports", ports_most)) offer.ports.push_back(port_of(port));
    return offer;
  });
}

}  // namespace loch::fabric::verbs
