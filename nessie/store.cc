// A deployed Nessie: registers its regions, restarts nodes and declares them lost, and makes clients.
#include "nessie/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "common/kv/regions.h"
#include "nessie/background.h"
#include "nessie/client.h"
#include "nessie/declare.h"
#include "nessie/members.h"
#include "nessie/repairs.h"
#include "nessie/scrub.h"

namespace loch::nessie {

// Registers the node's share of the index and its data table.
Result<> NessieStore::add_tables(fabric::Fabric& fabric, NodeState& state) const {
  const Settings& s = *settings_;
  const fabric::Elision elision = s.entry.elision(s.config.kept_value_bytes);
  // Remote WRITE to the index is permitted, because a lost node's share of the index is initialised by WRITEs
  // (declare.cc). The mutant unlock-by-write also WRITEs words in use.
  LOCH_ASSIGN(state.index,
              kv::add_region(fabric, state.node, index_region, s.share_bytes() * (1 + s.spare_shares),
                             {.remote_read = true,
                              .remote_write = s.rules.has_incarnation,
                              .remote_atomic = true,
                              .record_bytes = 8}));
  LOCH_ASSIGN(
      state.data,
      kv::add_region(
          fabric, state.node, data_region, s.entries_per_node * s.entry.stride(),
          {.remote_read = true, .remote_write = true, .elision = elision, .record_bytes = s.entry.stride()}));
  return {};
}

// Registers the buffers of the node's clients.
Result<> NessieStore::add_buffers(fabric::Fabric& fabric, NodeState& state) const {
  const Settings& s = *settings_;
  const fabric::Elision elision = s.entry.elision(s.config.kept_value_bytes);
  const std::uint64_t entries = s.lanes() * s.entry.stride();
  LOCH_ASSIGN(state.landing,
              kv::add_region(fabric, state.node, landing_region, entries, {.elision = elision}));
  LOCH_ASSIGN(state.words,
              kv::add_region(fabric, state.node, words_region, 8ULL * s.lanes_with_repairs() * lane_words));
  if (!s.is_remote()) return {};
  LOCH_ASSIGN(state.staging,
              kv::add_region(fabric, state.node, staging_region, entries, {.elision = elision}));
  return {};
}

Result<> NessieStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  NodeState state;
  state.node = node;
  if (s.config.serves(node)) LOCH_TRY(add_tables(fabric, state));
  if (s.config.drives(node)) LOCH_TRY(add_buffers(fabric, state));
  LOCH_ASSIGN(state.members, kv::add_region(fabric, node, members_region, 8ULL * (1 + s.config.nodes),
                                            {.remote_read = s.rules.has_incarnation,
                                             .remote_write = s.rules.has_incarnation}));
  LOCH_ASSIGN(state.chunks, chunks::ChunkNode::make(fabric, node, s.chunks ? &*s.chunks : nullptr));
  if (s.config.drives(node)) {
    LOCH_ASSIGN(state.scan,
                kv::add_region(fabric, node, scan_region, s.header_place(s.lanes_with_repairs())));
    if (s.cache_entries > 0) {
      const std::uint32_t value = std::min(s.config.kept_value_bytes, s.config.value_size);
      state.cache = std::make_unique<kv::WordCache>(s.cache_entries, s.config.key_size, value);
    }
    for (std::uint32_t worker = 0; worker < s.config.client_workers; ++worker)
      state.workers.push_back(make_worker(state, worker));
  }
  nodes_[node] = std::move(state);
  return {};
}

std::unique_ptr<WorkerState> NessieStore::make_worker(const NodeState& state, std::uint32_t worker) const {
  const Settings& s = *settings_;
  if (!s.is_remote())
    return std::make_unique<WorkerState>(*state.data, s, share_of(worker, s.preloaded_on(state.node)));
  auto own = std::make_unique<WorkerState>(*state.landing, s, DataTable::Share{});
  const std::uint32_t nodes = s.config.serving_nodes();
  const std::uint32_t client = s.config.client_number(state.node, worker);
  own->holdings = std::make_unique<Holdings>(s.format, nodes, static_cast<std::uint16_t>(client + 1));
  own->next_node = client % nodes;
  const std::uint64_t first = s.first_spare() + std::uint64_t{client} * s.client_entries;
  for (std::uint32_t other = 0; other < nodes; ++other)
    own->holdings->add(static_cast<fabric::NodeId>(other), {first, s.client_entries});
  return own;
}

DataTable::Share NessieStore::share_of(std::uint32_t worker, std::uint64_t preloaded) const {
  return {.first = worker,
          .step = settings_->config.client_workers,
          .entries = settings_->entries_per_node,
          .preloaded = static_cast<std::uint32_t>(preloaded)};
}

void WorkerState::restart(fabric::Region& data, const Settings& settings, const DataTable::Share& share) {
  std::destroy_at(&table);
  std::construct_at(&table, data, settings.entry, settings.format, share, settings.clock_margin,
                    settings.rules, 0U);
  unlinked.clear();
  unfinished.clear();
  is_abandoned = false;
  members_seen = 0;
  // The worker does not know where any share of the index lies until the node gets a member table.
  for (IndexShare& index : shares) index.is_void = true;
}

Result<> NessieStore::restart_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  if (s.is_remote()) {
    return fail(ErrorCode::unsupported,
                fmt::format("node {} stays without workers: nobody knows which entries of memory nodes its "
                            "clients owned",
                            node));
  }
  if (!s.format.has_incarnation()) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("node {} stays without workers: words of the published variant do not say of which "
                    "incarnation of a node they are",
                    node));
  }
  NodeState& state = local(node);
  if (s.cache_entries > 0) {
    const std::uint32_t value = std::min(s.config.kept_value_bytes, s.config.value_size);
    state.former_caches.push_back(std::move(state.cache));
    state.cache = std::make_unique<kv::WordCache>(s.cache_entries, s.config.key_size, value);
  }
  for (std::uint32_t worker = 0; worker < s.config.client_workers; ++worker) {
    WorkerState& own = *state.workers[worker];
    own.restart(*state.data, s, share_of(worker, 0));
    for (std::uint32_t i = 0; i < own.peers.size(); ++i) {
      LOCH_ASSIGN(own.peers[i].data, fabric.lookup(static_cast<fabric::NodeId>(i), data_region));
      own.peers[i].epoch = 0;
    }
  }
  return {};
}

std::optional<std::uint32_t> NessieStore::declared_as(fabric::NodeId node) const {
  const std::lock_guard lock(mutex_);
  const auto found = declared_.find(node);
  return found == declared_.end() ? std::nullopt : std::optional(found->second);
}

void NessieStore::begin_declaration(fabric::NodeId node, std::uint32_t incarnation) {
  const std::lock_guard lock(mutex_);
  declared_[node] = incarnation;
}

void NessieStore::end_declaration(fabric::NodeId node) {
  const std::lock_guard lock(mutex_);
  declared_.erase(node);
}

void NessieStore::abandon(const std::vector<kv::ClientId>& dead) {
  for (const kv::ClientId& client : dead) {
    const auto found = nodes_.find(client.node);
    if (found != nodes_.end() && client.worker < found->second.workers.size())
      found->second.workers[client.worker]->is_abandoned = true;
  }
}

Result<> NessieStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  std::vector<Peer> peers(settings_->config.serving_nodes());
  std::vector<IndexShare> shares(settings_->config.serving_nodes());
  for (std::uint32_t i = 0; i < peers.size(); ++i) {
    const auto node = static_cast<fabric::NodeId>(i);
    LOCH_ASSIGN(shares[i].index, fabric.lookup(node, index_region));
    LOCH_ASSIGN(peers[i].data, fabric.lookup(node, data_region));
  }
  for (auto& [node, state] : nodes_) {
    for (auto& worker : state.workers) {
      worker->peers = peers;
      worker->shares = shares;
    }
  }
  return {};
}

NodeState& NessieStore::local(fabric::NodeId node) {
  const auto found = nodes_.find(node);
  LOCH_CHECK(found != nodes_.end(), "node {} is not of this process", node);
  return found->second;
}

std::unique_ptr<kv::Client> NessieStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_->config.window);
  const std::uint32_t lane = worker.index() * settings_->config.window + slot;
  return std::make_unique<NessieClient>(*this, worker, lane);
}

coro::Task<void> NessieStore::serve(fabric::Worker& worker, std::uint32_t /*index*/) {
  return chunks::ChunkNode::manage(local(worker.node()).chunks.get(), &worker);
}

coro::Task<void> NessieStore::background(fabric::Worker& worker, const bool* done) {
  NodeState& node = local(worker.node());
  if (!node.chunks) return run_alone(&worker, done);
  Holdings& holdings = *node.workers.at(worker.index())->holdings;
  return node.chunks->client(worker, holdings).run_beside(run_alone(&worker, done));
}

coro::Task<void> NessieStore::run_alone(fabric::Worker* worker, const bool* done) {
  Lane lane(*this, *worker, settings_->background_lane(worker->index()));
  co_await run_background(&lane, done);
}

coro::Task<kv::Repair> NessieStore::scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) {
  RepairLanes lanes(*this, worker);
  co_return co_await nessie::scrub(&lanes, std::move(dead));
}

coro::Task<kv::Repair> NessieStore::declare_lost(fabric::Worker& worker, std::vector<fabric::NodeId> lost) {
  RepairLanes lanes(*this, worker);
  co_return co_await nessie::declare_lost(&lanes, std::move(lost));
}

std::map<std::string, double> NessieStore::counters() const {
  std::map<std::string, double> all;
  const auto add = [&](const char* name, std::uint64_t value) { all[name] += static_cast<double>(value); };
  for (const auto& [node, state] : nodes_) {
    for (const auto& worker : state.workers) {
      const Counters& c = worker->counters;
      add("conflicts", c.conflicts);
      add("rollbacks", c.rollbacks);
      add("migrations", c.migrations);
      add("migrations_undone", c.migrations_undone);
      add("stamps_local", c.stamps_local);
      add("stamps_remote", c.stamps_remote);
      add("stamps_put_off", c.stamps_put_off);
      add("left_unfinished", c.left_unfinished);
      add("unfinished_settled", c.settled);
      add("unfinished_waiting", worker->unfinished.size());
      add("suspicions", c.suspicions);
      add("doubts_cleared", c.doubts_cleared);
      add("leaks_found", c.leaks_found);
      add("lost_words_emptied", c.lost_words_buried);
      add("lost_values_met", c.lost_values_met);
      add("members_told", c.members_told);
      add("stamps_dropped", worker->table.counts().stamps_dropped);
      add("stamps_waiting", worker->unlinked.size());
      add("previous_version_reads", c.previous_reads);
      add("reconnects", c.reconnects);
      add("ambiguous_swaps", c.ambiguous_swaps);
      add("expired_operations", c.expired_operations);
      add("back_pressure", c.back_pressure);
      add("false_filter_hits", c.false_filter_hits);
      add("reverse_mismatches", c.reverse_mismatches);
      add("removed_then_aborted", c.removed_then_aborted);
      add("reserved_slots", c.reserved_slots);
      add("watch_timeouts", c.watch_timeouts);
      add("dte_allocated", worker->table.counts().allocated);
      add("dte_recycled", worker->table.counts().recycled);
      add("dte_scanned", worker->table.counts().scanned);
      if (worker->holdings == nullptr) continue;
      add("dte_allocated", worker->holdings->counts().allocated);
      add("dte_recycled", worker->holdings->counts().recycled);
      add("dte_given_up", worker->holdings->counts().given_up);
    }
    if (state.chunks) state.chunks->count(all);
    if (state.cache != nullptr) add("cache_entries", state.cache->size());
  }
  return all;
}

}  // namespace loch::nessie
