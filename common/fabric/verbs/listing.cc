// Opens every usable port of this host's RDMA devices in turn, and lists what the fabric finds there.
#include "common/fabric/verbs/listing.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/port_counters.h"
#include "common/fabric/verbs/ports.h"

namespace loch::fabric::verbs {
namespace {

std::string_view name_of_state(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "DOWN";
    case IBV_PORT_INIT:
      return "INIT";
    case IBV_PORT_ARMED:
      return "ARMED";
    case IBV_PORT_ACTIVE:
      return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
      return "ACTIVE_DEFER";
    case IBV_PORT_NOP:
      break;
  }
  return "unknown";
}

std::string_view name_of_link(std::uint8_t link_layer) {
  return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

// Fills in what the port and its device say of themselves, if they can be asked.
void ask_port(const DeviceList& devices, PortListing& port) {
  ibv_device* device = devices.find(port.offer.device);
  const Owned<ibv_context, ibv_close_device> context(device == nullptr ? nullptr : ibv_open_device(device));
  if (context == nullptr) return;
  ibv_device_attr attributes{};
  if (ibv_query_device(context.get(), &attributes) == 0)
    port.firmware.assign(attributes.fw_ver, strnlen(attributes.fw_ver, sizeof attributes.fw_ver));
  ibv_port_attr state{};
  if (ibv_query_port(context.get(), static_cast<std::uint8_t>(port.offer.number), &state) != 0) return;
  port.state = name_of_state(state.state);
  port.link_layer = name_of_link(state.link_layer);
  port.mtu_bytes = mtu_bytes(state.active_mtu);
  port.lid = state.lid;
}

// Opens the port, if it is usable, as a run would on a host that has no other port.
void try_port(const HostOffer& host, PortListing& port) {
  port.refusal = port.offer.refusal;
  if (!port.refusal.empty()) return;
  const HostOffer alone{.host = host.host, .wish = {}, .ports = {port.offer}};
  const Result<std::vector<Chosen>> chosen = choose_ports({&alone, 1});
  if (!chosen) {
    port.refusal = chosen.error().message;
    return;
  }
  const auto opened = Device::open(chosen->front(), VerbsConfig{});
  if (!opened) {
    port.refusal = opened.error().message;
    return;
  }
  port.taken = chosen->front();
  port.can = (*opened)->capabilities();
  port.has_extended = (*opened)->posts_extended();
}

}  // namespace

Listing list_ports(const Wish& wish) {
  const HostOffer mine = offer_of_this_host(wish);
  Listing listing{.host = mine.host, .ports = {}, .rails = {}};
  const DeviceList devices;
  for (const PortOffer& offer : mine.ports) {
    PortListing& port = listing.ports.emplace_back();
    port.offer = offer;
    const DevicePlace place = read_device_place(rdma_folder(), offer.device);
    port.driver = place.driver;
    port.numa_node = place.numa_node;
    ask_port(devices, port);
    try_port(mine, port);
  }
  Result<std::vector<std::vector<Chosen>>> chosen = choose_rails({&mine, 1});
  if (!chosen) {
    listing.rails = std::unexpected(std::move(chosen.error()));
    return listing;
  }
  std::vector<Chosen> rails;
  for (std::vector<Chosen>& rail : *chosen) {
    // A run would choose this port whether or not it can be opened; if it cannot, the run would fail.
    const auto port = std::ranges::find_if(listing.ports, [&](const PortListing& each) {
      return each.offer.device == rail.front().device && each.offer.number == rail.front().port;
    });
    if (port != listing.ports.end() && !port->refusal.empty()) {
      listing.rails = fail(ErrorCode::unavailable, port->refusal);
      return listing;
    }
    rails.push_back(std::move(rail.front()));
  }
  listing.rails = std::move(rails);
  return listing;
}

}  // namespace loch::fabric::verbs
