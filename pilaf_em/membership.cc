// Handles servers whose node lost its memory. They answer every request with "lost", so that a key that was
// stored gives an error and not a miss, until a client declares the node lost by a WRITE of one word; the
// server then lays out an empty table. Meanwhile clients READ zeroed memory, whose checksums are wrong.
#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/memory.h"
#include "pilaf_em/store.h"

namespace loch::pilaf {
namespace {

// Number of READs of the membership word before the caller is told to try again.
constexpr std::uint32_t looks = 50;
constexpr Nanos look_again_after = 20'000;

}  // namespace

Result<> PilafStore::restart_node(fabric::Fabric& /*fabric*/, fabric::NodeId node) {
  const Settings& s = *settings_;
  // With requests over UC a restarted node is not taken back, because a client does not notice the restart of
  // its peer: the fabric reconnects RC only.
  if (s.system == System::em_opt || !s.log_path.empty() || s.messages.transport == fabric::Transport::uc) {
    return fail(
        ErrorCode::unsupported,
        fmt::format(
            "node {} stays without workers: a server with a log, or over UC, is started again by hand",
            node));
  }
  NodeState& state = local(node);
  state.messages.incarnation = !state.messages.incarnation;
  for (auto& server : state.servers) {
    if (server->shard != nullptr) state.old_shards.push_back(std::move(server->shard));
    server->is_lost = true;
    server->is_changing = false;
    server->memory = {};
  }
  for (auto& worker : state.workers) {
    auto fresh = std::make_unique<WorkerState>();
    fresh->links = links_;
    state.old_workers.push_back(std::exchange(worker, std::move(fresh)));
  }
  return {};
}

coro::Task<kv::Repair> PilafStore::declare_lost(fabric::Worker& worker, std::vector<fabric::NodeId> lost) {
  return declare_all(&worker, std::move(lost));
}

coro::Task<kv::Repair> PilafStore::declare_all(fabric::Worker* worker, std::vector<fabric::NodeId> lost) {
  kv::Repair repair;
  for (const fabric::NodeId node : lost) {
    if (!settings_->config.serves(node) || settings_->system == System::em_opt) continue;
    const bool is_member = co_await declare(worker, node);
    repair.is_complete = repair.is_complete && is_member;
    ++repair.counts[is_member ? "nodes_declared" : "nodes_not_back"];
  }
  co_return repair;
}

// Declares one node lost. Returns false if the node cannot be reached, or its servers have not acknowledged
// the declaration yet.
coro::Task<bool> PilafStore::declare(fabric::Worker* worker, fabric::NodeId lost) {
  if (!worker->connected(lost)) {
    const Nanos deadline = worker->now() + settings_->reconnect_timeout;
    const bool is_back = co_await worker->reconnect(lost, deadline);
    if (!is_back) co_return false;
  }
  const Result<fabric::RemoteRegion> members = fabric_->lookup(lost, membership_region);
  if (!members.has_value()) co_return false;
  const std::uint64_t own = (std::uint64_t{settings_->config.server_workers} + worker->index()) * 8;
  const fabric::LocalSlice word{local(worker->node()).membership, own};
  for (std::uint32_t server = 0; server < settings_->config.server_workers; ++server) {
    Member said = Member::none;
    for (std::uint32_t i = 0; i < looks && said != Member::serves; ++i) {
      if (i > 0) co_await worker->sleep_until(worker->now() + look_again_after);
      const fabric::Completion read = co_await worker->read(*members, server * 8, word, 8);
      if (!read.ok()) co_return false;
      said = static_cast<Member>(fabric::load_word(word.data()));
      if (said != Member::none) continue;
      fabric::store_word_release(word.data(), static_cast<std::uint64_t>(Member::declared));
      const fabric::Completion written = co_await worker->write(*members, server * 8, word, 8);
      if (!written.ok()) co_return false;
    }
    if (said != Member::serves) co_return false;
  }
  co_return true;
}

bool PilafStore::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
  const std::uint32_t shard = settings_->shard_of(key);
  return settings_->node_of(shard) == node && (!server || settings_->server_of(shard) == *server);
}

std::vector<std::string> PilafStore::audit(const std::vector<fabric::NodeId>& lost) const {
  std::vector<std::string> wrong;
  for (const auto& [node, state] : nodes_) {
    if (std::ranges::find(lost, node) != lost.end()) continue;
    for (const auto& server : state.servers) {
      if (server->shard == nullptr || server->is_changing) continue;
      for (const std::string& each : server->shard->audit())
        wrong.push_back(fmt::format("n{} shard {}: {}", node, server->number, each));
    }
  }
  return wrong;
}

}  // namespace loch::pilaf
