// Membership of server workers whose node lost its memory: how they answer requests, and how they serve
// again.
//
// Without replicas no other node has a copy of such a worker's table (row). The worker answers every request
// with "lost", so that a GET of a value that existed is an error and never a miss. This ends when a client
// declares the node lost by a WRITE of one word; the worker then initialises its table as empty.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/probe.h"
#include "common/coupled/tables.h"
#include "common/cuckoo/index_word.h"
#include "common/fabric/memory.h"

namespace loch::coupled {
namespace {

// Number of READs of a server worker's state (Member) before the caller is told to try again.
constexpr std::uint32_t looks = 50;
constexpr Nanos look_again_after = 20'000;

}  // namespace

Result<> Tables::restart_node(fabric::NodeId node) {
  NodeTables& tables = local(node);
  channel_.restart_node(node);
  for (const auto& row : tables.rows) {
    row->is_laid_out = row->is_changing = false;
    ++row->incarnation;
  }
  return {};
}

void Tables::lay_out(Row& row, fabric::Worker& worker) const {
  LOCH_PROBE("coupled.table.laid-out-anew");
  // A client may remember index words of the table that the server worker had before its node restarted, so
  // the new table must not use any of them again. The incarnation's number is therefore part of the store
  // count, both in its low bits (the stamp of an occupied word) and in its high bits (index_word.h).
  row.stores = settings_.rules.words_restart ? 0 : row.incarnation << 40 | row.incarnation << 20;
  for (std::uint64_t slot = 0; slot < settings_.slots_per_row; ++slot)
    worker.store_word(row.memory.index(), row.memory.word_at(slot), cuckoo::IndexWord::empty(++row.stores));
  row.entries = cuckoo::EntryPool(settings_.entries_per_row, 0);
  row.is_laid_out = true;
}

coro::Task<kv::Repair> Tables::declare_lost(fabric::Worker* worker, std::vector<fabric::NodeId> lost) {
  kv::Repair repair;
  for (const fabric::NodeId node : lost) {
    if (!settings_.config.serves(node)) continue;
    const bool is_member = co_await declare(worker, node);
    repair.is_complete = repair.is_complete && is_member;
    ++repair.counts[is_member ? "nodes_declared" : "nodes_not_back"];
  }
  co_return repair;
}

// Declares a node lost, for each of its server workers. Returns false if the node cannot be reached or
// one of its workers does not serve again yet.
coro::Task<bool> Tables::declare(fabric::Worker* worker, fabric::NodeId lost) {
  if (!worker->connected(lost)) {
    const Nanos deadline = worker->now() + settings_.channel.reconnect_timeout;
    const bool is_back = co_await worker->reconnect(lost, deadline);
    if (!is_back) co_return false;
  }
  const Result<fabric::RemoteRegion> members = fabric_->lookup(lost, membership_region());
  if (!members.has_value()) co_return false;
  const std::uint64_t own = (std::uint64_t{settings_.servers()} + worker->index()) * 8;
  const fabric::LocalSlice word{local(worker->node()).membership, own};
  for (std::uint32_t server = 0; server < settings_.servers(); ++server) {
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

bool Tables::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
  cuckoo::KeyHash hash = settings_.family.hash({key.data, key.size});
  const std::uint32_t row = hash.candidate(0).node;
  if (row / settings_.servers() != node) return false;
  return !server || row % settings_.servers() == *server;
}

std::vector<std::string> Tables::audit(const std::vector<fabric::NodeId>& lost) const {
  std::vector<std::string> wrong;
  const auto is_lost = [&](fabric::NodeId node) { return std::ranges::find(lost, node) != lost.end(); };
  for (const auto& [node, tables] : nodes_) {
    if (is_lost(node)) continue;
    for (std::uint32_t server = 0; server < tables.rows.size(); ++server) {
      const Row& row = *tables.rows[server];
      if (!row.is_laid_out || row.is_changing) continue;
      for (const std::string& each : audit_row(row))
        wrong.push_back(fmt::format("n{} row {}: {}", node, server, each));
    }
  }
  return wrong;
}

// Checks that every key is stored once, in one of its candidate slots, and that every entry is either named
// by one index word, or free, or retired (no longer named, but perhaps still being read by clients).
std::vector<std::string> Tables::audit_row(const Row& row) const {
  std::vector<std::string> wrong;
  std::vector<std::uint32_t> named(settings_.entries_per_row);
  std::map<std::vector<std::byte>, std::uint64_t> slots;
  std::vector<std::byte> key(settings_.config.key_size);
  for (std::uint64_t slot = 0; slot < settings_.slots_per_row; ++slot) {
    const std::uint64_t word = row.memory.word(slot);
    if (!cuckoo::IndexWord::is_stored(word)) wrong.push_back(fmt::format("slot {} was never laid out", slot));
    if (cuckoo::IndexWord::is_empty(word)) continue;
    const std::uint32_t entry = cuckoo::IndexWord::entry(word);
    if (entry >= settings_.entries_per_row) {
      wrong.push_back(fmt::format("slot {} names entry {} of {}", slot, entry, settings_.entries_per_row));
      continue;
    }
    if (++named[entry] > 1) wrong.push_back(fmt::format("entry {} is named twice", entry));
    row.memory.read_key(entry, key.data());
    if (const auto [found, is_new] = slots.emplace(key, slot); !is_new)
      wrong.push_back(fmt::format("slots {} and {} hold one key", found->second, slot));
    cuckoo::KeyHash hash = settings_.family.hash(key);
    bool is_candidate = false;
    for (std::uint32_t i = 0; i < settings_.functions(); ++i)
      is_candidate = is_candidate || hash.candidate(i).slot == slot;
    if (!is_candidate) wrong.push_back(fmt::format("the key in slot {} does not belong there", slot));
  }
  const std::uint64_t used = slots.size(), others = row.entries.free() + row.entries.retired();
  if (wrong.empty() && used + others != settings_.entries_per_row) {
    wrong.push_back(fmt::format("{} entries are in use, {} are free or wait, of {}", used, others,
                                settings_.entries_per_row));
  }
  return wrong;
}

}  // namespace loch::coupled
