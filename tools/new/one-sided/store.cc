// Registers the regions and fills the table before the first operation.
#include "newstore/store.h"

#include "common/fabric/memory.h"
#include "common/kv/value.h"
#include "newstore/client.h"

namespace loch::newstore {

Result<> Store::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = shared_.settings;
  const kv::DeployConfig& c = s.config;
  if (c.serves(node)) {
    const std::uint64_t records = (c.max_keys + c.serving_nodes() - 1) / c.serving_nodes();
    fabric::RegionSpec slots{.name = "newstore.slots", .bytes = records * s.slot_bytes()};
    slots.remote_read = slots.remote_write = slots.remote_atomic = true;
    slots.elision = s.elision();
    LOCH_TRY(fabric.register_region(node, slots));
  }
  const std::uint64_t clients = std::uint64_t{c.client_workers} * c.window;
  fabric::RegionSpec buffers{.name = "newstore.buffers", .bytes = clients * 2 * s.slot_bytes()};
  buffers.elision = s.elision();
  LOCH_ASSIGN(shared_.buffers[node], fabric.register_region(node, buffers));
  return {};
}

Result<> Store::connect(fabric::Fabric& fabric) {
  for (std::uint32_t node = 0; node < shared_.settings.config.serving_nodes(); ++node) {
    LOCH_ASSIGN(const fabric::RemoteRegion region,
                fabric.lookup(static_cast<fabric::NodeId>(node), "newstore.slots"));
    shared_.slots.push_back(region);
  }
  return {};
}

Result<> Store::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const kv::DeployConfig& c = shared_.settings.config;
  std::vector<std::byte> key(c.key_size), value(c.kept_value_bytes);
  for (std::uint64_t i = 0; i < c.max_keys; ++i) {
    data.key(i, key.data());
    shared_.record_of[kv::key_digest({key.data(), c.key_size})] = i;
    const auto node = static_cast<fabric::NodeId>(i % c.serving_nodes());
    if (i >= data.count() || !fabric.is_local(node)) continue;
    fabric::Region* region = fabric.direct(node, "newstore.slots");
    LOCH_CHECK(region != nullptr, "the slots of node {} cannot be reached", node);
    const std::uint64_t at = i / c.serving_nodes() * shared_.settings.slot_bytes();
    fabric::store_word_release(region->at(at + state_at), 1);
    data.value(i, value.data(), c.kept_value_bytes);
    fabric::copy_to_shared(region->at(at + value_at), value.data(), value.size());
  }
  return {};
}

std::unique_ptr<kv::Client> Store::client(fabric::Worker& worker, std::uint32_t slot) {
  return std::make_unique<Client>(worker, shared_, slot);
}

bool Store::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
  const auto found = shared_.record_of.find(kv::key_digest(key));
  return !server && found != shared_.record_of.end() &&
         found->second % shared_.settings.config.serving_nodes() == node;
}

}  // namespace loch::newstore
