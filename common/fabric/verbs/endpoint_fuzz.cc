// Fuzz target for the parsers of the records in which processes describe their nodes and queue pairs.
// Arbitrary bytes must be refused, or be parsed to values within every bound that the connector relies on;
// writing these values and parsing the result must give equal values. The first byte selects the parser.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/fabric/verbs/endpoint.h"

namespace {

using namespace loch::fabric;
using namespace loch::fabric::verbs;

constexpr Limits limits{.nodes = 4};
constexpr std::uint32_t beyond_24_bits = 1u << 24;

void check_link(const LinkRecord& link) {
  LOCH_CHECK(link.key.node < limits.nodes && link.key.peer < limits.nodes);
  LOCH_CHECK(link.key.transport == Transport::rc || link.key.transport == Transport::uc);
  LOCH_CHECK(link.qpn < beyond_24_bits && link.psn < beyond_24_bits);
}

void read_node(std::string_view text) {
  const auto node = parse_node(text, limits);
  if (!node) return;
  LOCH_CHECK(node->node < limits.nodes);
  LOCH_CHECK(!node->addresses.empty() && node->addresses.size() <= rails_most);
  for (const Address& address : node->addresses) {
    const std::uint32_t mtu = address.mtu_bytes;
    LOCH_CHECK(mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0);
  }
  for (const RegionRecord& region : node->regions)
    LOCH_CHECK(region.bytes > 0 && region.address + region.bytes >= region.address);
  for (const WorkerRecord& worker : node->workers) {
    LOCH_CHECK(worker.ud_qpn < beyond_24_bits);
    for (const DatagramSender& sender : worker.ud_also)
      LOCH_CHECK(sender.qpn < beyond_24_bits && sender.rail < rails_most);
  }
  LOCH_CHECK(parse_node(to_text(*node), limits) == *node);
}

void read_links(std::string_view text) {
  const auto links = parse_links(text, limits);
  if (!links) return;
  for (const LinkRecord& link : *links) check_link(link);
  LOCH_CHECK(parse_links(to_text(*links), limits) == *links);
}

void read_notice(std::string_view text) {
  const auto notice = parse_notice(text, limits);
  if (!notice) return;
  LOCH_CHECK(notice->kind <= Notice::Kind::clients_ended && notice->node < limits.nodes);
  check_link(notice->link);
  const auto again = parse_notice(to_text(*notice), limits);
  LOCH_CHECK(again.has_value() && again->kind == notice->kind && again->link == notice->link);
  LOCH_CHECK(again->node == notice->node && again->number == notice->number);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      read_node(rest);
      break;
    case 1:
      read_links(rest);
      break;
    case 2:
      read_notice(rest);
      break;
  }
  return 0;
}
