// Writes and parses the JSON by which processes tell each other their regions and endpoints.
#include "common/fabric/ofi/peers.h"

#include <fmt/format.h>

#include "common/fabric/processes/json_fields.h"

namespace loch::fabric::ofi {
namespace {

using namespace processes::fields;

constexpr std::size_t name_most = 128, regions_most = 4096, workers_most = 65536, address_most = 1024;
constexpr std::uint64_t u64_most = ~std::uint64_t{0};

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::string from_hex(const std::string& hex) {
  const auto digit = [](char c) -> unsigned {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    throw Malformed{"address: expected hexadecimal digits"};
  };
  if (hex.empty() || hex.size() % 2 != 0) throw Malformed{"address: expected whole bytes"};
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return bytes;
}

RegionRecord region_of(const Json& json) {
  RegionRecord region;
  region.name = text_in(json, "name", name_most);
  region.address = number_in(json, "address", u64_most);
  region.bytes = number_in(json, "bytes", u64_most);
  region.key = number_in(json, "key", u64_most);
  region.rkey = static_cast<std::uint32_t>(number_in(json, "rkey", u32_most));
  region.rights = static_cast<std::uint32_t>(number_in(json, "rights", 7));
  if (region.bytes == 0 || region.address + region.bytes < region.address)
    throw Malformed{fmt::format("region {}: expected bytes within the address space", region.name)};
  return region;
}

}  // namespace

std::string to_text(const NodeRecord& node) {
  Json regions = Json::array(), workers = Json::array();
  for (const RegionRecord& region : node.regions) {
    regions.push_back({{"name", region.name},
                       {"address", region.address},
                       {"bytes", region.bytes},
                       {"key", region.key},
                       {"rkey", region.rkey},
                       {"rights", region.rights}});
  }
  for (const WorkerRecord& worker : node.workers)
    workers.push_back({{"index", worker.index}, {"address", to_hex(worker.address)}});
  return Json{{"node", node.node},
              {"host", node.host},
              {"provider", node.provider},
              {"regions", regions},
              {"workers", workers}}
      .dump();
}

Result<NodeRecord> parse_node(std::string_view text, std::uint32_t nodes) {
  return guarded<NodeRecord>(text, "a node's record", [&](const Json& json) {
    NodeRecord node;
    node.node = static_cast<NodeId>(number_in(json, "node", nodes - 1));
    node.host = text_in(json, "host", name_most);
    node.provider = text_in(json, "provider", name_most);
    for (const Json& region : array_in(json, "regions", regions_most))
      node.regions.push_back(region_of(region));
    for (const Json& worker : array_in(json, "workers", workers_most)) {
      node.workers.push_back({static_cast<std::uint16_t>(number_in(worker, "index", u16_most)),
                              from_hex(text_in(worker, "address", address_most))});
    }
    return node;
  });
}

}  // namespace loch::fabric::ofi
