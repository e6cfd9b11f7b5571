// Allocates tables in registered memory, fills them with the preload, and connects the request channel.
#include "common/coupled/tables.h"

#include <fmt/format.h>

#include "common/fabric/memory.h"
#include "common/fabric/same_bytes.h"
#include "common/kv/preloading.h"

namespace loch::coupled {

std::uint64_t RowMemory::word(std::uint64_t slot) const {
  return fabric::load_word(index_.at(word_at(slot)));
}

void RowMemory::read_key(std::uint32_t entry, std::byte* out) const {
  fabric::copy_from_shared(out, data_.at(entry_at(entry)), settings_.entry.key_size());
}

bool RowMemory::has_key(std::uint32_t entry, std::span<const std::byte> key) const {
  return fabric::same_bytes(data_.at(entry_at(entry)), key.data(), key.size());
}

Tables::Tables(Settings settings) : settings_(std::move(settings)), channel_(settings_.channel) {}

Result<> Tables::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = settings_;
  NodeTables tables;
  LOCH_ASSIGN(tables.membership, fabric.register_region(node, {.name = membership_region(),
                                                               .bytes = membership_bytes(),
                                                               .remote_read = s.config.serves(node),
                                                               .remote_write = s.config.serves(node),
                                                               .elision = {}}));
  if (s.config.serves(node)) {
    // Remote access is granted only where it is needed: READs, if clients READ the tables.
    LOCH_ASSIGN(tables.index, fabric.register_region(node, {.name = index_region(),
                                                            .bytes = s.index_bytes(),
                                                            .remote_read = s.rules.has_readers,
                                                            .remote_atomic = s.index_by != IndexBy::cpu,
                                                            .elision = {},
                                                            .record_bytes = 8}));
    LOCH_ASSIGN(tables.data, fabric.register_region(node, {.name = data_region(),
                                                           .bytes = s.data_bytes(),
                                                           .remote_read = s.rules.has_readers,
                                                           .elision = s.entry.elision(s.kept_value()),
                                                           .record_bytes = s.entry.stride()}));
    if (s.index_by != IndexBy::cpu) {
      LOCH_ASSIGN(tables.nic_words, fabric.register_region(node, {.name = settings_.name + ".nic-words",
                                                                  .bytes = s.servers() * nic_word_bytes,
                                                                  .elision = {}}));
    }
    for (std::uint32_t server = 0; server < s.servers(); ++server)
      tables.rows.push_back(std::make_unique<Row>(s, *tables.index, *tables.data, node, server));
  }
  for (std::uint32_t lane = 0; s.config.drives(node) && lane < s.channel.parties.lanes(); ++lane)
    tables.clients.push_back(std::make_unique<ClientCounts>());
  nodes_[node] = std::move(tables);
  return channel_.setup_node(fabric, node);
}

Result<> Tables::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  return channel_.connect(fabric);
}

NodeTables& Tables::local(fabric::NodeId node) {
  const auto found = nodes_.find(node);
  LOCH_CHECK(found != nodes_.end(), "node {} is not of this process", node);
  return found->second;
}

fabric::RemoteRegion Tables::own_index(fabric::NodeId node) const {
  const Result<fabric::RemoteRegion> found = fabric_->lookup(node, index_region());
  LOCH_CHECK(found.has_value(), "node {} serves, and knows its own index", node);
  return *found;
}

Result<> Tables::preload(const fabric::Fabric& fabric, const kv::Dataset& data) {
  LOCH_CHECK_EQ(data.count(), settings_.config.keys);
  const auto write_key = [&data](std::uint64_t i, std::byte* out) { data.key(i, out); };
  LOCH_ASSIGN(
      const cuckoo::Placement placement,
      cuckoo::plan_placement(settings_.family, settings_.config.keys, settings_.config.key_size, write_key));
  struct Place {
    Row* row;
    std::uint32_t number;  // of the row in the cluster
  };
  std::vector<Place> rows;
  for (auto& [node, tables] : nodes_) {
    for (std::uint32_t server = 0; server < tables.rows.size(); ++server) {
      fabric::store_word_release(tables.membership->at(server * 8),
                                 static_cast<std::uint64_t>(Member::serves));
      rows.push_back({tables.rows[server].get(), node * settings_.servers() + server});
    }
  }
  return in_parallel(rows.size(), kv::preload_threads(fabric), [&, this](std::size_t i) {
    return fill_row(*rows[i].row, rows[i].number, data, placement);
  });
}

// Fills a server worker's table (row) as if its keys were PUT one after the other; entries are numbered in
// the order of their slots.
Result<> Tables::fill_row(Row& row, std::uint32_t number, const kv::Dataset& data,
                          const cuckoo::Placement& placement) {
  const EntryLayout& layout = settings_.entry;
  std::vector<std::byte> key(layout.key_size()), value(settings_.kept_value());
  std::uint32_t used = 0;
  for (std::uint64_t slot = 0; slot < settings_.slots_per_row; ++slot) {
    const std::uint32_t record = placement.owner(cuckoo::Place{number, slot});
    std::byte* const word = row.memory.index().at(row.memory.word_at(slot));
    if (record == cuckoo::Placement::free_slot) {
      fabric::store_word_release(word, cuckoo::IndexWord::empty(0));
      continue;
    }
    const std::uint32_t entry = used++;
    if (entry >= settings_.entries_per_row) {
      return fail(ErrorCode::exhausted,
                  fmt::format("{}.overflow: a server worker has {} DTEs and more keys than that",
                              settings_.name, settings_.entries_per_row));
    }
    fabric::Region& entries = row.memory.data();
    const std::uint64_t at = row.memory.entry_at(entry);
    data.key(record, key.data());
    data.value(record, value.data(), static_cast<std::uint32_t>(value.size()));
    fabric::copy_to_shared(entries.at(at), key.data(), key.size());
    fabric::store_word_release(entries.at(at + layout.meta_at()), watermark);
    if (!value.empty())
      fabric::copy_to_shared(entries.at(at + layout.value_at()), value.data(), value.size());
    fabric::store_word_release(entries.at(at + layout.tail_at()), watermark);
    cuckoo::KeyHash hash = settings_.family.hash(key);
    fabric::store_word_release(word,
                               cuckoo::IndexWord::occupied(entry, 0, hash.filter(settings_.filter_bits)));
  }
  row.entries = cuckoo::EntryPool(settings_.entries_per_row, used);
  return {};
}

std::map<std::string, double> Tables::counters() const {
  std::map<std::string, double> all;
  const auto add = [&](const char* name, std::uint64_t value) { all[name] += static_cast<double>(value); };
  for (const auto& [node, tables] : nodes_) {
    for (const auto& row : tables.rows) {
      const ServerCounts& c = row->counts;
      add("requests", c.requests);
      add("requests_repeated", c.repeated);
      add("requests_stale", c.stale);
      add("requests_refused", c.refused);
      add("requests_to_the_lost", c.lost);
      add("replies_undelivered", c.unanswered);
      add("server_reconnects", c.reconnects);
      add("moves", c.moves);
      add("slots_searched", c.examined);
      add("table_full", c.full);
      add("back_pressure", c.busy);
      if (settings_.index_by == IndexBy::cpu) continue;
      add("nic_index_reads", c.nic_reads);
      add("nic_index_swaps", c.nic_swaps);
      add("nic_reconnects", c.nic_reconnects);
    }
    for (const auto& c : tables.clients) {
      add("request_retries", c->retries);
      add("client_reconnects", c->reconnects);
      add("requests_unsent", c->unsent);
      add("request_timeouts", c->timeouts);
      add("frames_looked_at_again", c->late_frames);
      add("busy_replies", c->busy);
    }
  }
  return all;
}

}  // namespace loch::coupled
