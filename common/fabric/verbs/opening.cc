// Gathers the devices of all hosts, opens the chosen one of this host, and gathers the capabilities of all
// chosen devices.
#include "common/fabric/verbs/opening.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "common/fabric/verbs/port_counters.h"
#include "common/fabric/verbs/ports.h"

namespace loch::fabric::verbs {
namespace {

// The traffic class has DSCP 26 in the upper six bits, and ECN-capable transport in the lower two.
constexpr std::uint8_t lossless_class = 106;

// Sends a text to all processes and returns the texts of all processes by rank; that of a lost process is
// empty. A process without a control plane, or one that was restarted, gets its own text alone.
Result<std::vector<std::string>> tell_all(const VerbsConfig& config, std::string_view what,
                                          std::string mine) {
  cluster::Control* control = config.control;
  if (control == nullptr || control->incarnation(control->rank()) != 0) return std::vector{std::move(mine)};
  return control->all_gather(what, mine, config.meet_within);
}

// All processes find the same fault; the table of who offers what, below the first line, is told by the first
// alone. The others end later than it, since a launcher may end the first with them.
Error without_table(Error fault) {
  const std::size_t line = fault.message.find('\n');
  if (line == std::string::npos) return fault;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  fault.message.resize(line);
  return fault;
}

// Returns this host's port of each rail.
Result<std::vector<Chosen>> choose_with_others(const VerbsConfig& config, const HostOffer& mine) {
  LOCH_ASSIGN(const std::vector<std::string> texts, tell_all(config, "what hosts offer", to_text(mine)));
  std::vector<HostOffer> hosts;
  std::size_t own = 0;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    if (config.control != nullptr && rank == config.control->rank()) own = hosts.size();
    LOCH_ASSIGN(HostOffer offer, parse_offer(texts[rank]));
    hosts.push_back(std::move(offer));
  }
  Result<std::vector<std::vector<Chosen>>> rails = choose_rails(hosts);
  if (!rails) return std::unexpected(own == 0 ? rails.error() : without_table(rails.error()));
  std::vector<Chosen> chosen;
  for (const std::vector<Chosen>& rail : *rails) chosen.push_back(rail.at(own));
  return chosen;
}

std::string administered_class(const Chosen& chosen) {
  std::ifstream file(fmt::format("{}/{}/tc/{}/traffic_class", rdma_folder(), chosen.device, chosen.port));
  std::string line;
  std::getline(file, line);
  return line;
}

NodeDevice describe(const Device& device, const Chosen& chosen, const std::string& host) {
  const Port& port = device.port();
  const DevicePlace place = read_device_place(rdma_folder(), chosen.device);
  return {.host = host,
          .port = port.number,
          .gid = chosen.gid ? to_text(chosen.gid->gid) : "",
          .network = chosen.network,
          .gigabits = chosen.gigabits,
          .pkey = chosen.pkey,
          .service_level = port.service_level,
          .traffic_class = port.traffic_class,
          .flow_label = port.flow_label,
          .firmware = device.firmware(),
          .driver = place.driver,
          .numa_node = place.numa_node,
          .can = device.capabilities()};
}

}  // namespace

std::uint8_t choose_traffic_class(std::optional<std::uint8_t> asked, std::string_view administered,
                                  LinkFormat link, bool is_software) {
  if (asked) return *asked;
  constexpr std::string_view before = "Global tclass=";
  if (const std::size_t at = administered.find(before); at != std::string_view::npos) {
    const char* first = administered.data() + at + before.size();
    std::uint8_t said = 0;
    if (std::from_chars(first, administered.data() + administered.size(), said).ec == std::errc{})
      return said;
  }
  return link == LinkFormat::roce_v2 && !is_software ? lossless_class : 0;
}

Capabilities agree(const std::vector<NodeDevice>& devices, bool assumes_order) {
  Capabilities agreed = devices.front().can;
  std::vector<std::string> names;
  for (const NodeDevice& one : devices) {
    agreed = least(agreed, one.can);
    if (std::ranges::find(names, one.can.device) == names.end()) names.push_back(one.can.device);
  }
  agreed.device = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) agreed.device += ", " + names[i];
  if (!assumes_order) return agreed;
  constexpr std::uint32_t line = 64;
  agreed.order_is_assumed =
      !agreed.in_order_placement || !agreed.in_order_reads || agreed.untorn_bytes < line;
  agreed.in_order_placement = agreed.in_order_reads = true;
  agreed.untorn_bytes = std::max(agreed.untorn_bytes, line);
  return agreed;
}

Result<Opened> open_together(const VerbsConfig& config) {
  const HostOffer mine = offer_of_this_host({config.device, config.port, config.gid_index, config.pkey});
  LOCH_ASSIGN(const std::vector<Chosen> chosen, choose_with_others(config, mine));
  Opened opened;
  for (const Chosen& one : chosen) {
    LOCH_ASSIGN(std::unique_ptr<Device> device, Device::open(one, config));
    device->set_traffic_class(choose_traffic_class(config.traffic_class, administered_class(one),
                                                   device->capabilities().link, device->is_software()));
    NodeDevice own = describe(*device, one, mine.host);
    own.node = static_cast<NodeId>(config.control == nullptr ? 0 : config.control->rank());
    opened.rails.push_back(std::move(device));
    LOCH_ASSIGN(const std::vector<std::string> texts, tell_all(config, "what devices can do", to_text(own)));
    for (const std::string& text : texts) {
      if (text.empty()) continue;
      LOCH_ASSIGN(NodeDevice other, parse_device(text));
      opened.devices.push_back(std::move(other));
    }
  }
  opened.agreed = agree(opened.devices, config.assumes_order);
  return opened;
}

}  // namespace loch::fabric::verbs
