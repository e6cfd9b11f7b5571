// Registers the regions of RACE's nodes, fills the table before the first operation, and makes clients.
#include "race/store.h"

#include <fmt/format.h>

#include "common/fabric/memory.h"
#include "common/kv/regions.h"
#include "race/lane.h"

namespace loch::race {

std::optional<Block> FreeBlocks::take_oldest() {
  if (runs_.empty()) return std::nullopt;
  Run& oldest = runs_.front();
  const Block block = oldest.first;
  oldest.first.number += oldest.units;
  if (--oldest.count == 0) runs_.pop_front();
  --size_;
  return block;
}

WorkerState::WorkerState(const Settings& of)
    : settings(of), free(of.config.serving_nodes()), directory(of.config.serving_nodes()) {}

void WorkerState::add(fabric::NodeId node, chunks::Chunk chunk) {
  const std::uint64_t units = settings.block.units();
  free[node].add_run(chunk.first * units, chunk.count, units);
}

std::optional<Block> WorkerState::take(fabric::NodeId node) { return free[node].take_oldest(); }

void WorkerState::put_back(fabric::NodeId node, Block block) {
  block.generation = settings.rules.has_word_generation ? (block.generation + 1) % generations : 0;
  free[node].add(block);
}

void WorkerState::give(fabric::NodeId node, Word word) {
  const Entry entry = Entry::unpack(word);
  if (settings.rules.frees_blocks && entry.block != 0) put_back(node, {entry.block, entry.generation});
}

std::uint32_t WorkerState::home(const Shape& shape, const Places& places) const {
  const std::vector<std::uint8_t>& known = directory[places.node];
  for (std::uint32_t depth = shape.max_depth; depth > shape.depth; --depth) {
    const std::uint32_t suffix = low(places.suffix, depth);
    if (suffix < known.size() && known[suffix] <= depth) return suffix;
  }
  return low(places.suffix, shape.depth);
}

Result<> RaceStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  NodeState state;
  if (s.config.serves(node)) {
    LOCH_ASSIGN(state.table, kv::add_region(fabric, node, table_region, s.shape.table_bytes(),
                                            {.remote_read = true, .remote_atomic = true}));
    LOCH_ASSIGN(state.blocks,
                kv::add_region(fabric, node, blocks_region, s.blocks_per_node() * s.block.bytes(),
                               {.remote_read = true, .remote_write = true, .elision = s.block.elision()}));
  }
  if (s.config.drives(node)) {
    LOCH_ASSIGN(state.buffers,
                kv::add_region(fabric, node, buffers_region, 2ULL * s.lanes() * s.block.bytes(),
                               {.elision = s.block.elision()}));
    LOCH_ASSIGN(state.buckets, kv::add_region(fabric, node, buckets_region, s.lanes() * buckets_bytes));
    LOCH_ASSIGN(state.directory, kv::add_region(fabric, node, directory_region,
                                                s.config.client_workers * s.directory_bytes()));
    for (std::uint32_t i = 0; i < s.config.client_workers; ++i) {
      auto own = std::make_unique<WorkerState>(s);
      const std::uint64_t first = s.preload_blocks + s.config.client_number(node, i) * s.client_blocks;
      for (std::uint32_t other = 0; other < s.config.serving_nodes() && !s.chunks; ++other)
        own->add(static_cast<fabric::NodeId>(other), {first, static_cast<std::uint32_t>(s.client_blocks)});
      state.workers.push_back(std::move(own));
    }
  }
  LOCH_ASSIGN(state.chunks, chunks::ChunkNode::make(fabric, node, s.chunks ? &*s.chunks : nullptr));
  nodes_[node] = std::move(state);
  return {};
}

Result<> RaceStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  const std::uint32_t serving = settings_->config.serving_nodes();
  LOCH_ASSIGN(const std::vector<fabric::RemoteRegion> table, kv::look_up(fabric, serving, table_region));
  LOCH_ASSIGN(const std::vector<fabric::RemoteRegion> blocks, kv::look_up(fabric, serving, blocks_region));
  for (auto& [_, state] : nodes_) {
    for (const auto& own : state.workers) {
      for (const fabric::RemoteRegion& region : table) own->table.push_back({.region = region});
      for (const fabric::RemoteRegion& region : blocks) own->blocks.push_back({.region = region});
    }
  }
  return {};
}

// Puts a record, if this process has the record's node, into the slot that an INSERT would take. `placed`:
// number of records put on each node so far.
Result<> RaceStore::place(const kv::Dataset& data, std::uint64_t record,
                          std::map<fabric::NodeId, std::uint64_t>& placed) {
  const Settings& s = *settings_;
  std::vector<std::byte> key(s.config.key_size), value(s.block.kept()), scratch(s.block.checked_bytes());
  data.key(record, key.data());
  const kv::Key name{key.data(), s.config.key_size};
  const Places places = s.shape.places(name);
  const auto local = nodes_.find(places.node);
  if (local == nodes_.end()) return {};
  const NodeState& state = local->second;
  const std::uint64_t number = ++placed[places.node];
  if (number >= s.preload_blocks) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("keys: more than {} of {} fall on node {}", number, data.count(), places.node));
  }
  View view;
  const std::uint64_t subtable = s.shape.subtable_bytes() * low(places.suffix, s.shape.depth);
  for (std::size_t i = 0; i < places.bucket.size(); ++i) {
    for (const std::uint64_t half : {0, 1}) {
      const std::uint64_t at = subtable + places.bucket[i] + half * bucket_bytes;
      view.add(places, i, (half == 0) == places.is_odd[i], at, state.table->at(at));
    }
  }
  const View::Seen* slot = view.free_slot(!s.rules.is_pending_first);
  if (slot == nullptr) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "race.load-factor: no slot is free for record {}; expected a smaller share, or a larger table",
            record));
  }
  const Entry entry{places.fingerprint, s.block.units(), number * s.block.units(), 0, false};
  const BlockHead head{0, static_cast<std::uint16_t>(name.size), s.config.value_size, ~0U, 0};
  const std::uint64_t at = number * s.block.bytes();
  data.value(record, value.data(), s.block.kept());
  write_block(s.block, state.blocks->at(at), state.blocks->at(at + s.block.crc_at()), head, name,
              {value.data(), s.config.value_size, s.block.kept()}, scratch);
  fabric::store_word_release(state.table->at(slot->offset), entry.pack());
  return {};
}

Result<> RaceStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) {
  const Settings& s = *settings_;
  for (auto& [node, state] : nodes_) {
    if (state.table == nullptr) continue;
    const std::uint64_t global = s.shape.directory_at();
    fabric::store_word_release(state.table->at(global), s.shape.depth);
    for (std::uint32_t suffix = 0; suffix < s.shape.subtables(); ++suffix) {
      const std::uint64_t first = s.shape.subtable_bytes() * suffix;
      for (std::uint64_t at = 0; at < s.shape.subtable_bytes(); at += bucket_bytes)
        fabric::store_word_release(state.table->at(first + at), header_of(s.shape.depth, suffix));
      fabric::store_word_release(state.table->at(s.shape.entry_at(suffix)), directory_entry(s.shape.depth));
    }
  }
  std::map<fabric::NodeId, std::uint64_t> placed;
  for (std::uint64_t record = 0; record < data.count(); ++record) LOCH_TRY(place(data, record, placed));
  return {};
}

// A server worker does nothing but give out chunks (runs of blocks that clients request); without chunks
// there is no server worker.
coro::Task<void> RaceStore::serve(fabric::Worker& worker, std::uint32_t /*index*/) {
  return chunks::ChunkNode::manage(local(worker.node()).chunks.get(), &worker);
}

bool RaceStore::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> /*server*/) const {
  // Operations on a key need the key's node. After clients died with their node they may also need a scrub
  // (repair), because a dead client may have left a pending entry of any key.
  return settings_->config.drives(node) || settings_->shape.places(key).node == node;
}

std::map<std::string, double> RaceStore::counters() const {
  static const std::map<std::string, std::uint64_t Counters::*> names = {
      {"conflicts", &Counters::conflicts},
      {"lost_swaps", &Counters::lost_swaps},
      {"false_fingerprints", &Counters::false_fingerprints},
      {"other_generations", &Counters::other_generations},
      {"torn_blocks", &Counters::torn_blocks},
      {"pending_met", &Counters::pending_met},
      {"inserts_withdrawn", &Counters::withdrawn},
      {"ambiguous_swaps", &Counters::ambiguous_swaps},
      {"doubts", &Counters::doubts},
      {"doubts_settled", &Counters::settled},
      {"reconnects", &Counters::reconnects},
      {"puts_without_a_block", &Counters::no_block},
      {"directory_reads", &Counters::directory_reads},
      {"splits", &Counters::splits},
      {"split_buckets", &Counters::buckets_moved},
      {"split_entries_moved", &Counters::entries_moved},
      {"split_ns", &Counters::split_ns},
  };
  std::map<std::string, double> all;
  for (const auto& [node, state] : nodes_) {
    if (state.chunks) state.chunks->count(all);
    for (const auto& own : state.workers) {
      for (const auto& [name, count] : names) all[name] += static_cast<double>(own->counters.*count);
      all["doubts_waiting"] += static_cast<double>(own->doubts.size());
      for (const FreeBlocks& free : own->free) all["blocks_free"] += static_cast<double>(free.size());
    }
  }
  return all;
}

}  // namespace loch::race
