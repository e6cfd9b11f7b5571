// The command `loch devices`: prints each port of this machine's RDMA devices as the verbs fabric judges it,
// and the port and GID that the fabric would choose.
#include "app/cli/devices_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "app/cli/bench_options.h"
#include "common/fabric/verbs/listing.h"
#include "common/measure/result.h"

namespace loch::cli {
namespace {

using fabric::verbs::Chosen;
using fabric::verbs::GidEntry;
using fabric::verbs::Listing;
using fabric::verbs::PortListing;
using fabric::verbs::to_text;
using nlohmann::ordered_json;

constexpr int exit_no_port = 1;

const char* name_of_kind(const GidEntry& gid) {
  switch (gid.kind) {
    case fabric::verbs::GidKind::infiniband:
      return "InfiniBand";
    case fabric::verbs::GidKind::roce_v1:
      return "RoCE v1";
    case fabric::verbs::GidKind::roce_v2:
      return "RoCE v2";
  }
  return "unknown";
}

// ---- JSON ----------------------------------------------------------------------------------------

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json chosen_json(const Chosen& chosen) {
  return {{"device", chosen.device},
          {"port", chosen.port},
          {"link_layer", chosen.is_roce ? "Ethernet" : "InfiniBand"},
          {"gid_index", chosen.gid ? ordered_json(chosen.gid->index) : ordered_json(nullptr)},
          {"gid", chosen.gid ? ordered_json(to_text(chosen.gid->gid)) : ordered_json(nullptr)},
          {"gid_type", chosen.gid ? ordered_json(name_of_kind(*chosen.gid)) : ordered_json(nullptr)},
          {"network", chosen.network},
          {"gigabits_s", chosen.gigabits},
          {"pkey", fmt::format("{:#06x}", chosen.pkey)}};
}

// By which functions of libibverbs a run on the port posts work requests.
std::string_view posting_of(const PortListing& port) {
  return port.has_extended ? "ibv_wr" : "ibv_post_send";
}

ordered_json port_listing_json(const PortListing& port) {
  ordered_json gids = ordered_json::array();
  for (const GidEntry& gid : port.offer.gids) {
    gids.push_back({{"index", gid.index},
                    {"gid", to_text(gid.gid)},
                    {"type", name_of_kind(gid)},
                    {"score", score(gid)},
                    {"is_vlan", gid.is_vlan}});
  }
  ordered_json pkeys = ordered_json::array();
  for (const std::uint16_t pkey : port.offer.pkeys) pkeys.push_back(fmt::format("{:#06x}", pkey));
  return {{"device", port.offer.device},
          {"port", port.offer.number},
          {"link_layer", text_or_null(port.link_layer)},
          {"state", text_or_null(port.state)},
          {"gigabits_s", port.offer.gigabits},
          {"mtu_bytes", port.mtu_bytes == 0 ? ordered_json(nullptr) : ordered_json(port.mtu_bytes)},
          {"lid", port.lid},
          {"firmware", text_or_null(port.firmware)},
          {"driver", text_or_null(port.driver)},
          {"numa_node", port.numa_node < 0 ? ordered_json(nullptr) : ordered_json(port.numa_node)},
          {"pkeys", std::move(pkeys)},
          {"gids", std::move(gids)},
          {"taken", port.taken ? chosen_json(*port.taken) : ordered_json(nullptr)},
          {"can", port.can ? measure::to_json(*port.can) : ordered_json(nullptr)},
          {"posting", port.can ? ordered_json(posting_of(port)) : ordered_json(nullptr)},
          {"refusal", text_or_null(port.refusal)}};
}

ordered_json listing_json(const Listing& listing) {
  ordered_json ports = ordered_json::array();
  for (const PortListing& port : listing.ports) ports.push_back(port_listing_json(port));
  ordered_json rails = ordered_json::array();
  if (listing.rails) {
    for (const Chosen& rail : *listing.rails) rails.push_back(chosen_json(rail));
  }
  return {{"schema", 1},
          {"host", listing.host},
          {"ports", std::move(ports)},
          {"choice", listing.rails ? rails.front() : ordered_json(nullptr)},
          {"rails", rails},
          {"refusal", listing.rails ? ordered_json(nullptr) : ordered_json(listing.rails.error().message)}};
}

// ---- Text ----------------------------------------------------------------------------------------

std::string capability_line(const fabric::Capabilities& can) {
  std::vector<std::string> words;
  for (const auto& [has, name] :
       {std::pair{can.rc, "RC"}, std::pair{can.uc, "UC"}, std::pair{can.ud, "UD"}}) {
    if (has) words.emplace_back(name);
  }
  words.emplace_back(can.atomic_scope == fabric::AtomicScope::global ? "atomics against the CPU too"
                     : can.atomic_scope == fabric::AtomicScope::nic  ? "atomics through this NIC"
                                                                     : "no atomics");
  words.emplace_back(can.receives_connected ? "shared receive queues" : "no shared receive queues");
  words.push_back(fmt::format("{} bytes inline", can.max_inline_bytes));
  if (can.rc) words.push_back(fmt::format("READs and atomics outstanding: {}", can.max_rd_atomic));
  words.emplace_back(can.in_order_placement ? "bytes in order" : "no order of bytes");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string gid_text(const GidEntry& gid) {
  return fmt::format("{} {} ({}{})", gid.index, to_text(gid.gid), name_of_kind(gid),
                     gid.is_vlan ? ", VLAN" : "");
}

void print_port(const PortListing& port) {
  std::vector<std::string> facts;
  for (const std::string& text : {port.link_layer, port.state}) {
    if (!text.empty()) facts.push_back(text);
  }
  if (port.offer.gigabits > 0) facts.push_back(fmt::format("{:g} Gbit/s", port.offer.gigabits));
  if (port.mtu_bytes > 0) facts.push_back(fmt::format("MTU {}", port.mtu_bytes));
  if (port.lid > 0) facts.push_back(fmt::format("LID {}", port.lid));
  if (!port.driver.empty()) facts.push_back(port.driver);
  if (!port.firmware.empty()) facts.push_back(fmt::format("firmware {}", port.firmware));
  if (port.numa_node >= 0) facts.push_back(fmt::format("NUMA node {}", port.numa_node));
  fmt::print("{} port {}{}{}\n", port.offer.device, port.offer.number, facts.empty() ? "" : ": ",
             fmt::join(facts, ", "));
  if (port.can) fmt::print("  can:     {}, posting by {}\n", capability_line(*port.can), posting_of(port));
  for (std::size_t i = 0; i < port.offer.gids.size(); ++i) {
    const GidEntry& gid = port.offer.gids[i];
    const bool is_taken = port.taken && port.taken->gid && port.taken->gid->index == gid.index;
    fmt::print("  {:<8} {}{}\n", i == 0 ? "GIDs:" : "", gid_text(gid),
               is_taken ? ", taken on this port" : "");
  }
  if (!port.refusal.empty()) fmt::print("  refused: {}\n", port.refusal);
}

void print_listing(const Listing& listing) {
  for (const PortListing& port : listing.ports) print_port(port);
  if (!listing.rails) return;
  for (std::size_t rail = 0; rail < listing.rails->size(); ++rail) {
    const Chosen& chosen = listing.rails->at(rail);
    fmt::print(
        "{}: {} port {}{}, {}\n", listing.rails->size() == 1 ? "choice" : fmt::format("rail {}", rail),
        chosen.device, chosen.port,
        chosen.gid ? fmt::format(", GID index {} ({})", chosen.gid->index, to_text(chosen.gid->gid)) : "",
        chosen.network);
  }
}

}  // namespace

settings::Command devices_command(DevicesFlags& flags) {
  using settings::of;
  using settings::shown;
  using settings::Type;
  return {
      .name = "devices",
      .usage = {"[flags]"},
      .about =
          "Lists the RDMA devices and ports of this machine as the verbs fabric sees them: what each can do, "
          "or why it is refused, and which port and GID the fabric takes if this host is alone. Each usable "
          "port is opened for a moment.",
      .flags = {{.setting = of(Type::boolean, "json", "", "as JSON, with what else is known of each port"),
                 .place = &flags.as_json},
                {.setting = shown(of(Type::text, "device", "",
                                     "choose among these, as bench --device: NAME, NAME:PORT, HOST=NAME or "
                                     "SUBNET/BITS, by commas, or several rails by + (all devices)"),
                                  "NAME"),
                 .place = &flags.device},
                {.setting =
                     of(Type::integer, "port", "", "choose this port of the device (the fastest)", 1, 255),
                 .place = &flags.port},
                {.setting = of(Type::integer, "gid-index", "",
                               "choose this GID of the port (the best: RoCE v2 over IPv4 first)", 0, 255),
                 .place = &flags.gid_index},
                {.setting = shown(of(Type::text, "pkey", "",
                                     "choose the partition of this P_Key, such as 0x8001 (the first of which "
                                     "the host is a full member)"),
                                  "P_KEY"),
                 .place = &flags.pkey}},
      .statuses = {{"0", "the fabric has a port to use"}, {"1", "it has none"}, {"2", "bad input"}},
      .example = "devices --device mlx5_0"};
}

int run_devices_command(const std::vector<std::string>& arguments) {
  DevicesFlags flags;
  const settings::Command command = devices_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  fabric::verbs::Wish wish{flags.device, flags.port, flags.gid_index, {}};
  if (given->has("pkey")) {
    const auto pkey = parse_pkey(flags.pkey);
    if (!pkey) return settings::refuse(command, pkey.error().message);
    wish.pkey = *pkey;
  }
  const Listing listing = fabric::verbs::list_ports(wish);
  const bool is_bad_wish = !listing.rails && listing.rails.error().code == ErrorCode::invalid_argument;
  if (is_bad_wish) return settings::refuse(command, listing.rails.error().message);
  if (flags.as_json) {
    fmt::print("{}\n", listing_json(listing).dump(1, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    print_listing(listing);
  }
  if (listing.rails) return 0;
  if (!flags.as_json) fmt::print(stderr, "loch devices: {}\n", listing.rails.error().message);
  return exit_no_port;
}

}  // namespace loch::cli
