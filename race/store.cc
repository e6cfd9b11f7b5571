// Registers the regions of RACE's nodes, fills the table before the first operation, and checks the table at
// rest, when no operation is under way: no key is in two slots, no entry is pending, and no block is in two
// places.
#include "race/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "common/fabric/memory.h"
#include "common/kv/checks.h"
#include "common/kv/findings.h"
#include "common/kv/preloading.h"
#include "common/kv/regions.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// The audit of one node.
struct Audit {
  const Settings& s;
  const std::map<fabric::NodeId, NodeState>& nodes;
  bool has_dead_clients;
  kv::Findings& findings;
  fabric::NodeId node;
  const NodeState& state = nodes.at(node);
  std::set<std::uint64_t> named = {};  // blocks that a slot names, or that are free
  std::set<std::string> keys = {};

  [[nodiscard]] Word word_at(std::uint64_t at) const { return fabric::load_word(state.table->at(at)); }

  void look_at_all() {
    for (std::uint32_t suffix = 0; suffix < 1U << s.shape.max_depth; ++suffix) {
      const std::uint64_t first = s.shape.subtable_bytes() * suffix;
      for (std::uint64_t at = first; at < first + s.shape.subtable_bytes(); at += bucket_bytes)
        look_at_bucket(suffix, at);
      if (locked_by(word_at(s.shape.entry_at(suffix))) != nobody && !has_dead_clients)
        findings.add("node {}: subtable {} is locked", node, suffix);
    }
    for (const auto& [_, other] : nodes) {
      for (const auto& own : other.workers) look_at_free(own->free[node]);
    }
  }

  // Reports free blocks of a worker that a slot names too, or that are free twice.
  void look_at_free(const FreeBlocks& free) {
    for (const FreeBlocks::Run& run : free.runs()) {
      for (std::uint64_t i = 0; i < run.count; ++i) {
        const std::uint64_t block = run.first.number + i * run.units;
        if (!named.insert(block).second) findings.add("node {}: block {} is free and in use", node, block);
      }
    }
  }

  void look_at_bucket(std::uint32_t suffix, std::uint64_t at) {
    const std::uint32_t made = std::bit_width(suffix);  // the least depth of a subtable with this suffix
    // A bucket of a subtable that is being split off counts only once the header of the bucket whose entries
    // are moved into it has the new depth.
    if (made > s.shape.depth && depth_of(word_at(at - (s.shape.subtable_bytes() << (made - 1)))) < made)
      return;
    const Word header = word_at(at);
    if (!is_header_of(header, suffix) || depth_of(header) < std::max(made, s.shape.depth) ||
        depth_of(header) > s.shape.max_depth)
      return findings.add("node {}: bucket at {} has another header", node, at);
    for (std::uint64_t slot = at + 8; slot < at + bucket_bytes; slot += 8) {
      const Word word = word_at(slot);
      if (word != 0 && (!is_frozen(word) || is_moving(header))) look_at_word(slot, word, header);
    }
  }

  void look_at_word(std::uint64_t slot, Word word, Word header) {
    const Entry entry = Entry::unpack(word);
    const std::string where = fmt::format("node {}, slot at {}", node, slot);
    // If a node crashed together with its clients, nobody has removed those clients' pending entries.
    if (entry.is_pending && !has_dead_clients) findings.add("{}: pending for ever", where);
    if (entry.is_pending) return;
    if (!named.insert(entry.block).second)
      findings.add("{}: {}", where,
                   is_free(word) ? "the block left there is in use" : "its block is another slot's as well");
    if (is_free(word)) return;
    std::vector<std::byte> bytes(s.block.checked_bytes());
    BlockHead head;
    if (!s.block.read({state.blocks, entry.block * block_unit}, bytes, &head))
      return findings.add("{}: its block's checksum is wrong", where);
    if (head.generation != entry.generation)
      findings.add("{}: names generation {}, the block has {}", where, entry.generation, head.generation);
    const kv::Key key = BlockLayout::key_in(bytes, head);
    const Places places = s.shape.places(key);
    const auto suffix = static_cast<std::uint32_t>(header >> 32);
    const auto covers = [&](std::uint64_t bucket) {
      const std::uint64_t first = s.shape.subtable_bytes() * suffix + bucket;
      return slot > first && slot < first + combined_bytes;
    };
    if (places.node != node || bits(places.suffix, 0, depth_of(header)) != suffix ||
        std::ranges::none_of(places.bucket, covers))
      findings.add("{}: no slot of its key", where);
    if (places.fingerprint != entry.fingerprint) findings.add("{}: not its key's fingerprint", where);
    const std::string name(reinterpret_cast<const char*>(key.data), key.size);
    if (!keys.insert(name).second) findings.add("{}: its key is in another slot as well", where);
  }
};

}  // namespace

void WorkerState::add(fabric::NodeId node, chunks::Chunk chunk) {
  free[node].add({chunk.first * settings.block.units(), 0}, chunk.count, settings.block.units());
}

void WorkerState::put_back(fabric::NodeId node, Block block) {
  block.generation = settings.has_generation ? (block.generation + 1) % generations : 0;
  free[node].add(block);
}

void WorkerState::give(fabric::NodeId node, Word word) {
  const Entry entry = Entry::unpack(word);
  if (settings.frees_blocks && entry.block != 0) put_back(node, {entry.block, entry.generation});
}

std::uint32_t WorkerState::home(const Places& places) const {
  const Shape& shape = settings.shape;
  const std::vector<std::uint8_t>& known = directory[places.node];
  for (std::uint32_t depth = shape.max_depth; depth > shape.depth; --depth) {
    const std::uint32_t suffix = bits(places.suffix, 0, depth);
    if (suffix < known.size() && known[suffix] <= depth) return suffix;
  }
  return bits(places.suffix, 0, shape.depth);
}

Result<> RaceStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = settings_;
  NodeState state;
  if (s.config.serves(node)) {
    LOCH_ASSIGN(state.table,
                kv::add_region(fabric, node, table_region, s.shape.table_bytes(),
                               {.remote_read = true, .remote_atomic = true, .record_bytes = bucket_bytes}));
    LOCH_ASSIGN(state.blocks,
                kv::add_region(fabric, node, blocks_region, s.blocks_per_node() * s.block.bytes(),
                               {.remote_read = true,
                                .remote_write = true,
                                .elision = s.block.elision(),
                                .record_bytes = s.block.bytes()}));
  }
  if (s.config.drives(node)) {
    const std::uint64_t buffers = 2ULL * s.lanes() * s.block.bytes(),
                        directories = s.config.client_workers * s.directory_bytes();
    LOCH_ASSIGN(state.buffers,
                kv::add_region(fabric, node, buffers_region, buffers, {.elision = s.block.elision()}));
    LOCH_ASSIGN(state.buckets, kv::add_region(fabric, node, buckets_region, s.lanes() * buckets_bytes));
    LOCH_ASSIGN(state.directory, kv::add_region(fabric, node, directory_region, directories));
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
  const std::uint32_t serving = settings_.config.serving_nodes();
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

// Each node's table is filled by one thread, in the order of the records' numbers.
Result<> RaceStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const Settings& s = settings_;
  for (auto& [node, state] : nodes_) {
    if (state.table == nullptr) continue;
    fabric::store_word_release(state.table->at(s.shape.directory_at()), s.shape.depth);
    for (std::uint32_t suffix = 0; suffix < s.shape.subtables(); ++suffix) {
      const std::uint64_t first = s.shape.subtable_bytes() * suffix;
      for (std::uint64_t at = 0; at < s.shape.subtable_bytes(); at += bucket_bytes)
        fabric::store_word_release(state.table->at(first + at), header_of(s.shape.depth, suffix));
      fabric::store_word_release(state.table->at(s.shape.entry_at(suffix)), directory_entry(s.shape.depth));
    }
  }
  const std::size_t threads = kv::preload_threads(fabric);
  return in_parallel(threads, threads, [&, this](std::size_t part) -> Result<> {
    std::map<fabric::NodeId, std::uint64_t> placed;  // number of records put on each node so far
    std::vector<std::byte> key(s.config.key_size), value(s.block.kept), scratch(s.block.checked_bytes());
    for (std::uint64_t record = 0; record < data.count(); ++record) {
      data.key(record, key.data());
      const Places places = s.shape.places({key.data(), s.config.key_size});
      if (places.node % threads != part || !nodes_.contains(places.node)) continue;
      const NodeState& state = local(places.node);
      const std::uint64_t number = ++placed[places.node];
      if (number >= s.preload_blocks)
        return kv::refuse("keys: more than {} of {} fall on node {}", number, data.count(), places.node);
      // the slot that an INSERT would take
      View view;
      const std::uint64_t subtable = s.shape.subtable_bytes() * bits(places.suffix, 0, s.shape.depth);
      for (const std::size_t i : {0, 1}) {
        for (const std::uint32_t half : {0, 1})
          view.add(places, i, half, subtable,
                   state.table->at(subtable + places.bucket[i] + half * bucket_bytes));
      }
      const View::Seen* slot = view.free_slot(!s.is_pending_first);
      if (slot == nullptr)
        return kv::refuse(
            "race.load-factor: no slot is free for record {}; expected a smaller share, or a larger table",
            record);
      const Entry entry{places.fingerprint, s.block.units(), number * s.block.units()};
      const BlockHead head{0, static_cast<std::uint16_t>(s.config.key_size), s.config.value_size, ~0U};
      data.value(record, value.data(), s.block.kept);
      s.block.write({state.blocks, number * s.block.bytes()}, head, {key.data(), s.config.key_size},
                    {value.data(), s.config.value_size, s.block.kept}, scratch);
      fabric::store_word_release(state.table->at(slot->offset), entry.pack());
    }
    return {};
  });
}

std::vector<std::string> RaceStore::audit(const std::vector<fabric::NodeId>& lost) const {
  // The published variant is not audited: it is known to leave two entries of one key.
  if (settings_.is_published) return {};
  const auto drives = [&](fabric::NodeId node) { return settings_.config.drives(node); };
  kv::Findings findings;
  for (const auto& [node, state] : nodes_) {
    if (state.table == nullptr || std::ranges::find(lost, node) != lost.end()) continue;
    Audit{settings_, nodes_, std::ranges::any_of(lost, drives), findings, node}.look_at_all();
  }
  return findings.take();
}

std::map<std::string, double> RaceStore::counters() const {
  std::map<std::string, double> all;
  for (const auto& [_, state] : nodes_) {
    if (state.chunks) state.chunks->count(all);
    for (const auto& own : state.workers) {
      own->counters.add_to(all);
      all["doubts_waiting"] += static_cast<double>(own->doubts.size());
      for (const FreeBlocks& free : own->free) all["blocks_free"] += static_cast<double>(free.size());
    }
  }
  return all;
}

}  // namespace loch::race
