// Makes the tables, caches, server workers and clients of NessieHY.
#include "nessie_hy/store.h"

#include "common/coupled/table_server.h"
#include "nessie_hy/reader.h"

namespace loch::nessie_hy {
namespace {

class HyClient final : public kv::Client {
 public:
  HyClient(HyStore& store, fabric::Worker& worker, std::uint32_t lane)
      : reader_(store, worker, lane), requests_(store.tables(), worker, lane) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    return reader_.get(key, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::put, key, value, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::remove, key, {}, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override {
    return requests_.ask(coupled::Ask::insert_if_absent, key, value, stats);
  }

 private:
  Reader reader_;
  coupled::TableClient requests_;
};

}  // namespace

Result<> HyStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const coupled::Settings& table = settings_.table;
  LOCH_TRY(tables_.setup_node(fabric, node));
  if (!table.config.drives(node)) return {};
  const std::uint32_t lanes = table.channel.parties.lanes();
  NodeReading own;
  LOCH_ASSIGN(own.landing,
              fabric.register_region(node, {.name = std::string(landing_region),
                                            .bytes = lanes * table.entry.stride(),
                                            .elision = table.entry.elision(table.kept_value())}));
  LOCH_ASSIGN(own.words, fabric.register_region(node, {.name = std::string(words_region),
                                                       .bytes = std::uint64_t{lanes} * lane_words * 8,
                                                       .elision = {}}));
  for (std::uint32_t lane = 0; lane < lanes; ++lane) own.counts.push_back(std::make_unique<GetCounts>());
  nodes_[node] = std::move(own);
  make_cache(node);
  return {};
}

void HyStore::make_cache(fabric::NodeId node) {
  if (settings_.cache_entries == 0) return;
  const coupled::Settings& table = settings_.table;
  NodeReading& own = nodes_.at(node);
  if (own.cache != nullptr) own.old_caches.push_back(std::move(own.cache));
  own.cache =
      std::make_unique<kv::WordCache>(settings_.cache_entries, table.config.key_size, table.kept_value());
}

Result<> HyStore::restart_node(fabric::Fabric& /*fabric*/, fabric::NodeId node) {
  if (settings_.table.config.drives(node)) make_cache(node);
  return tables_.restart_node(node);
}

Result<> HyStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  LOCH_TRY(tables_.connect(fabric));
  for (std::uint32_t i = 0; i < settings_.table.config.serving_nodes(); ++i) {
    LOCH_ASSIGN(const Peer peer, look_up(static_cast<fabric::NodeId>(i)));
    peers_.push_back(peer);
  }
  return {};
}

Result<Peer> HyStore::look_up(fabric::NodeId node) const {
  Peer peer;
  LOCH_ASSIGN(peer.index, fabric_->lookup(node, tables_.index_region()));
  LOCH_ASSIGN(peer.data, fabric_->lookup(node, tables_.data_region()));
  return peer;
}

Result<> HyStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  return tables_.preload(fabric, data);
}

coro::Task<void> HyStore::serve(fabric::Worker& worker, std::uint32_t index) {
  return coupled::serve(&tables_, &worker, index);
}

std::unique_ptr<kv::Client> HyStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_.table.config.window);
  const std::uint32_t lane = settings_.table.channel.parties.lane(worker.index(), slot);
  return std::make_unique<HyClient>(*this, worker, lane);
}

NodeReading& HyStore::reading(fabric::NodeId node) {
  const auto found = nodes_.find(node);
  LOCH_CHECK(found != nodes_.end(), "node {} is not of this process", node);
  return found->second;
}

std::map<std::string, double> HyStore::counters() const {
  std::map<std::string, double> all = tables_.counters();
  const auto add = [&](const char* name, std::uint64_t value) { all[name] += static_cast<double>(value); };
  for (const auto& [node, own] : nodes_) {
    for (const auto& c : own.counts) {
      add("get_conflicts", c->conflicts);
      add("reverse_mismatches", c->mismatches);
      add("other_keys_read", c->other_keys);
      add("expired_gets", c->expired);
      add("watch_timeouts", c->watch_timeouts);
      add("get_reconnects", c->reconnects);
    }
    if (own.cache != nullptr) add("cache_entries", own.cache->size());
  }
  return all;
}

}  // namespace loch::nessie_hy
