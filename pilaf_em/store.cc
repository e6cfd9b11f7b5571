// Registers Pilaf's regions, fills its shards, and makes servers and clients.
#include "pilaf_em/store.h"

#include <fmt/format.h>

#include <algorithm>

namespace loch::pilaf {

std::string table_region(std::uint32_t server) { return fmt::format("pilaf.table.{}", server); }
std::string extents_region(std::uint32_t server) { return fmt::format("pilaf.extents.{}", server); }

namespace {

// Says what a simulation that stores values in part keeps of each extent: the key and the beginning of the
// value.
fabric::Elision extent_elision(const Settings& s, std::uint64_t entry_bytes, std::uint32_t tail) {
  if (!s.is_elided()) return {};
  return {
      .entry_bytes = entry_bytes, .keep_head = (s.config.key_size + s.kept() + 7) / 8 * 8, .keep_tail = tail};
}

Result<std::unique_ptr<ServerState>> make_server(fabric::Fabric& fabric, fabric::NodeId node,
                                                 const Settings& s, std::uint32_t index) {
  auto server = std::make_unique<ServerState>();
  server->number = s.shard_at(node, index);
  const bool can_read = s.system != System::pilaf_vo;
  LOCH_ASSIGN(server->table,
              fabric.register_region(node, {.name = table_region(index),
                                            .bytes = table_head + s.slots_reserved * bucket_bytes,
                                            .remote_read = can_read,
                                            .record_bytes = bucket_bytes}));
  LOCH_ASSIGN(server->extents, fabric.register_region(node, {.name = extents_region(index),
                                                             .bytes = s.extents_most,
                                                             .remote_read = can_read,
                                                             .elision = extent_elision(s, s.block, 0),
                                                             .record_bytes = s.block}));
  return server;
}

}  // namespace

Result<> PilafStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  NodeState state;
  state.node = node;
  LOCH_ASSIGN(state.messages, rpc::register_messages(fabric, node, s.messages));
  const std::uint64_t words = std::uint64_t{s.config.server_workers} + s.config.client_workers;
  LOCH_ASSIGN(state.membership, fabric.register_region(node, {.name = std::string(membership_region),
                                                              .bytes = words * 8,
                                                              .remote_read = s.config.serves(node),
                                                              .remote_write = s.config.serves(node)}));
  const std::uint64_t lanes = s.messages.lanes();
  LOCH_ASSIGN(state.landing,
              fabric.register_region(node, {.name = std::string(landing_region),
                                            .bytes = lanes * s.landing_stride(),
                                            .elision = extent_elision(s, s.landing_stride(), 128)}));
  for (std::uint32_t i = 0; s.config.serves(node) && i < s.config.server_workers; ++i) {
    LOCH_ASSIGN(auto server, make_server(fabric, node, s, i));
    state.servers.push_back(std::move(server));
  }
  for (std::uint32_t i = 0; s.config.drives(node) && i < s.config.client_workers; ++i)
    state.workers.push_back(std::make_unique<WorkerState>());
  nodes_[node] = std::move(state);
  return {};
}

Result<> PilafStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  std::vector<Link> links(settings_->shards);
  for (std::uint32_t shard = 0; shard < links.size(); ++shard) {
    Link& link = links[shard];
    link.node = settings_->node_of(shard);
    link.server = settings_->server_of(shard);
    if (settings_->system == System::pilaf_vo) continue;
    LOCH_ASSIGN(link.table, fabric.lookup(link.node, table_region(link.server)));
    LOCH_ASSIGN(link.extents, fabric.lookup(link.node, extents_region(link.server)));
  }
  links_ = links;
  for (auto& [node, state] : nodes_) {
    for (auto& worker : state.workers) worker->links = links;
  }
  return {};
}

NodeState& PilafStore::local(fabric::NodeId node) {
  const auto found = nodes_.find(node);
  LOCH_CHECK(found != nodes_.end(), "node {} is not of this process", node);
  return found->second;
}

Shard& PilafStore::shard(std::uint32_t number) {
  return *local(settings_->node_of(number)).servers.at(settings_->server_of(number))->shard;
}

coro::Task<void> PilafStore::serve(fabric::Worker& worker, std::uint32_t index) {
  return run_server(this, &worker, index);
}

std::unique_ptr<kv::Client> PilafStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_->config.window);
  return make_client(*this, worker, slot);
}

namespace {

using Sums = std::map<std::string, double>;

void add(Sums& all, const char* name, std::uint64_t value) { all[name] += static_cast<double>(value); }

void add_client(Sums& all, const WorkerState& worker) {
  const ClientCounters& c = worker.counters;
  add(all, "bad_guards", c.bad_guards);
  add(all, "bad_extents", c.bad_extents);
  add(all, "closed_buckets", c.closed_buckets);
  add(all, "foreign_extents", c.foreign_extents);
  add(all, "roots_read", c.roots_read);
  add(all, "misses_confirmed", c.misses_confirmed);
  add(all, "misses_refuted", c.misses_refuted);
  add(all, "reconnects", c.reconnects);
  add(all, "restarts", c.restarts);
  add(all, "conflicts", c.conflicts);
  if (worker.channel == nullptr) return;
  const rpc::MessageCounters& m = worker.channel->counters();
  add(all, "requests_repeated", m.retries);
  add(all, "stray_replies", m.strays);
  add(all, "reconnects", m.reconnects);
}

void add_server(Sums& all, ServerState& server) {
  add(all, "requests_served", server.messages.served);
  add(all, "requests_repeats_seen", server.messages.duplicates);
  add(all, "requests_stale", server.messages.stale);
  add(all, "replies_lost", server.messages.replies_lost);
  add(all, "resets", server.resets);
  add(all, "puts_refused", server.refused);
  add(all, "malformed_requests", server.malformed);
  if (server.log != nullptr) {
    const Recovered& recovered = server.log->recovered();
    add(all, "log_replayed", recovered.records);
    add(all, "log_bytes_dropped", recovered.bytes_dropped);
    add(all, "log_records_dropped", recovered.records_dropped);
    add(all, "log_intact_records_dropped", recovered.intact_dropped);
    add(all, "logs_closed", server.log->is_open() ? 0 : 1);
    add(all, "log_appended", server.log->appended());
    add(all, "log_acknowledged", server.log->acknowledged());
  }
  if (server.shard == nullptr) return;
  const Shard::Counters& c = server.shard->counters();
  add(all, "keys", c.keys);
  add(all, "inserts", c.inserts);
  add(all, "updates_in_place", c.updates_in_place);
  add(all, "updates_replaced", c.updates_replaced);
  add(all, "removes", c.removes);
  add(all, "entries_moved", c.moved);
  add(all, "table_growths", c.table_growths);
  add(all, "extents_growths", c.extents_growths);
  add(all, "slots", server.shard->root().slots);
  add(all, "extents_free_bytes", server.shard->allocator().free_bytes());
}

}  // namespace

std::map<std::string, double> PilafStore::counters() const {
  Sums all;
  for (const auto& [node, state] : nodes_) {
    for (const auto& worker : state.workers) add_client(all, *worker);
    for (const auto& server : state.servers) add_server(all, *server);
  }
  return all;
}

bool PilafStore::serves_further_loads() const {
  return std::ranges::none_of(nodes_, [](const auto& each) {
    return std::ranges::any_of(each.second.servers,
                               [](const auto& server) { return server->log != nullptr; });
  });
}

std::vector<std::string> PilafStore::notes() const {
  std::vector<std::string> all;
  for (const auto& [node, state] : nodes_) {
    for (const auto& server : state.servers) {
      if (server->log == nullptr) continue;
      for (std::string& note : server->log->notes()) all.push_back(std::move(note));
    }
  }
  return all;
}

}  // namespace loch::pilaf
