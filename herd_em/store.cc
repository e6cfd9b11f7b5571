// Registers HERD's request slots, fills its partitions, and makes servers and clients.
#include "herd_em/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/kv/preloading.h"

namespace loch::herd {
namespace {

constexpr const char* replies_region = "herd.replies";
constexpr const char* requests_region = "herd.requests";
constexpr const char* received_region = "herd.received";

}  // namespace

Result<> HerdStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = settings_;
  const kv::DeployConfig& c = s.config;
  Node& own = nodes_[node];
  if (c.serves(node)) {
    fabric::RegionSpec slots{.name = slots_region,
                             .bytes = std::uint64_t{c.server_workers} * s.slots() * s.format.slot_bytes};
    slots.remote_write = true;
    LOCH_ASSIGN(own.slots, fabric.register_region(node, slots));
    const fabric::RegionSpec replies{.name = replies_region, .bytes = c.server_workers * s.replies.bytes()};
    LOCH_ASSIGN(own.replies, fabric.register_region(node, replies));
  }
  if (c.drives(node)) {
    const std::uint64_t requests = std::uint64_t{c.client_workers} * c.window * s.format.slot_bytes;
    LOCH_ASSIGN(own.client_regions.requests,
                fabric.register_region(node, {.name = requests_region, .bytes = requests}));
    const std::uint64_t received = c.client_workers * ClientWorker::desk_shape(s).bytes();
    LOCH_ASSIGN(own.client_regions.replies,
                fabric.register_region(node, {.name = received_region, .bytes = received}));
  }
  return {};
}

Result<> HerdStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  const fabric::Capabilities& can = fabric.capabilities();
  const kv::DeployConfig& c = settings_.config;
  if (c.value_size > can.mtu_bytes) {
    return fail(ErrorCode::unsupported,
                fmt::format("--value-size {}: a reply is one datagram, and the MTU is {}", c.value_size,
                            can.mtu_bytes));
  }
  settings_.format.places_lines = can.untorn_bytes >= SlotFormat::line;
  for (std::uint32_t node = 0; node < c.serving_nodes(); ++node) {
    LOCH_ASSIGN(const fabric::RemoteRegion region,
                fabric.lookup(static_cast<fabric::NodeId>(node), slots_region));
    slots_.push_back(region);
  }
  for (auto& [node, own] : nodes_) {
    for (std::uint32_t i = 0; c.serves(node) && i < c.server_workers; ++i)
      own.servers.push_back(std::make_unique<Server>(settings_, i, *own.slots, *own.replies));
    if (c.drives(node)) own.clients.resize(c.client_workers);
  }
  return {};
}

// Each server's records are written by one thread, in the order of their numbers. Every thread looks at all
// records: to find out whose one is takes far less than to write it.
Result<> HerdStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const std::size_t threads = kv::preload_threads(fabric);
  return in_parallel(threads, threads,
                     [&, this](std::size_t part) { return preload_servers(data, part, threads); });
}

// Writes the records of those servers of this process whose number modulo `parts` is `part`.
Result<> HerdStore::preload_servers(const kv::Dataset& data, std::size_t part, std::size_t parts) {
  const kv::DeployConfig& c = settings_.config;
  const std::uint32_t kept = settings_.partition.value_bytes;
  std::vector<std::byte> key(c.key_size), value(kept);
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    const KeyHash hash = hash_of({key.data(), c.key_size}, settings_.rules.never_zero);
    const std::uint32_t server = settings_.server_of(hash);
    const auto home = nodes_.find(settings_.node_of_server(server));
    if (server % parts != part || home == nodes_.end()) continue;
    data.value(i, value.data(), kept);
    Partition& partition = home->second.servers[server % c.server_workers]->partition();
    if (!partition.put(hash, value.data(), c.value_size, kept)) {
      return fail(ErrorCode::exhausted,
                  fmt::format("--herd.log: record {} finds no room in a store of {} bytes a worker", i,
                              settings_.partition.log_bytes));
    }
  }
  return {};
}

coro::Task<void> HerdStore::serve(fabric::Worker& worker, std::uint32_t index) {
  return nodes_.at(worker.node()).servers.at(index)->run(worker);
}

// Safe without a lock: each worker calls this on its own thread and accesses only its own element of
// `clients`.
std::unique_ptr<kv::Client> HerdStore::client(fabric::Worker& worker, std::uint32_t slot) {
  Node& own = nodes_.at(worker.node());
  std::unique_ptr<ClientWorker>& shared = own.clients.at(worker.index());
  if (shared == nullptr)
    shared = std::make_unique<ClientWorker>(settings_, worker, own.client_regions, *fabric_, slots_);
  return std::make_unique<HerdClient>(*shared, slot);
}

bool HerdStore::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
  const std::uint32_t own = settings_.server_of(hash_of(key, settings_.rules.never_zero));
  return settings_.node_of_server(own) == node &&
         (!server || own % settings_.config.server_workers == *server);
}

std::vector<std::string> HerdStore::audit(const std::vector<fabric::NodeId>& lost) const {
  std::vector<std::string> wrong;
  for (const auto& [node, own] : nodes_) {
    if (std::ranges::find(lost, node) != lost.end()) continue;
    for (std::size_t i = 0; i < own.servers.size(); ++i) {
      for (const std::string& each : own.servers[i]->partition().audit())
        wrong.push_back(fmt::format("n{} server {}: {}", node, i, each));
    }
  }
  return wrong;
}

std::map<std::string, double> HerdStore::counters() const {
  std::map<std::string, double> all;
  const auto add = [&](const char* name, std::uint64_t value) { all[name] += static_cast<double>(value); };
  for (const auto& [node, own] : nodes_) {
    if (own.slots != nullptr) add("request_region_bytes", own.slots->bytes());
    for (const auto& server : own.servers) {
      const ServerCounts& c = server->counts();
      add("requests", c.requests);
      add("batches", c.batches);
      add("repeated_requests", c.repeated);
      add("stale_requests", c.stale);
      add("pipeline_drains", c.drains);
      const PartitionCounts& p = server->partition().counts();
      add("index_evictions", p.evictions);
      add("index_inserts", p.inserts);
      add("log_overwritten", p.overwritten);
      add("updates", p.updates);
      add("hits", p.hits);
      add("misses", p.misses);
      const rpc::DatagramCounts d = server->datagrams();
      add("replies", d.sent);
      add("replies_inlined", d.inlined);
      add("replies_signaled", d.signaled);
      add("reply_lists", d.lists);
      add("replies_failed", d.failed);
    }
    for (const auto& client : own.clients) {
      if (client == nullptr) continue;
      add("retries", client->counts().retries);
      add("timeouts", client->counts().timeouts);
      if (settings_.transport == fabric::Transport::rc) add("reconnects", client->counts().reconnects);
      add("stray_replies", client->counts().strays);
    }
  }
  return all;
}

}  // namespace loch::herd
