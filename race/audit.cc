// Checks the tables at rest, when no operation is under way: no key is in two slots, no entry is pending, and
// no block is in two places.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "common/fabric/memory.h"
#include "common/kv/findings.h"
#include "race/store.h"

namespace loch::race {
namespace {

class Audit {
 public:
  Audit(const Settings& settings, const std::map<fabric::NodeId, NodeState>& nodes, bool has_dead_clients)
      : s_(settings), nodes_(nodes), has_dead_clients_(has_dead_clients) {}

  void look_at(fabric::NodeId node, const NodeState& state) {
    named_.clear();
    for (std::uint32_t suffix = 0; suffix < 1U << s_.shape.max_depth; ++suffix) {
      const std::uint64_t first = s_.shape.subtable_bytes() * suffix;
      for (std::uint64_t at = first; at < first + s_.shape.subtable_bytes(); at += bucket_bytes)
        look_at_bucket(node, state, suffix, at);
      const Word entry = fabric::load_word(state.table->at(s_.shape.entry_at(suffix)));
      if (locked_by(entry) != nobody && !has_dead_clients_)
        findings_.add("node {}: subtable {} is locked", node, suffix);
    }
    for (const auto& [_, other] : nodes_) {
      for (const auto& own : other.workers) look_at_free(node, *own);
    }
  }

  [[nodiscard]] std::vector<std::string> findings() { return findings_.take(); }

 private:
  void look_at_bucket(fabric::NodeId node, const NodeState& state, std::uint32_t suffix, std::uint64_t at) {
    const std::uint32_t made = std::bit_width(suffix);  // the least depth of a subtable with this suffix
    if (made > s_.shape.depth) {
      // A bucket of a subtable that is being split off counts only once the header of the bucket whose
      // entries are moved into it has the new depth.
      const std::uint64_t back = s_.shape.subtable_bytes() * (1U << (made - 1));
      if (depth_of(fabric::load_word(state.table->at(at - back))) < made) return;
    }
    const Word header = fabric::load_word(state.table->at(at));
    if (!is_header_of(header, suffix) || depth_of(header) < std::max(made, s_.shape.depth) ||
        depth_of(header) > s_.shape.max_depth)
      return findings_.add("node {}: bucket at {} has another header", node, at);
    for (std::uint32_t i = 1; i <= slots_per_bucket; ++i) {
      const Word word = fabric::load_word(state.table->at(at + 8ULL * i));
      if (word != 0 && (!is_frozen(word) || is_moving(header)))
        look_at_word(node, state, at + 8ULL * i, word, header);
    }
  }

  void look_at_word(fabric::NodeId node, const NodeState& state, std::uint64_t slot, Word word, Word header) {
    const Entry entry = Entry::unpack(word);
    const std::string where = fmt::format("node {}, slot at {}", node, slot);
    if (is_free(word)) {
      if (!named_.insert(entry.block).second) findings_.add("{}: the block left there is in use", where);
      return;
    }
    if (entry.is_pending) {
      // If a node crashed together with its clients, nobody has removed those clients' pending entries.
      if (!has_dead_clients_) findings_.add("{}: pending for ever", where);
      return;
    }
    if (!named_.insert(entry.block).second) findings_.add("{}: its block is another slot's as well", where);
    std::vector<std::byte> bytes(s_.block.checked_bytes());
    BlockHead head;
    const std::uint64_t at = entry.block * block_unit;
    if (!read_block(s_.block, state.blocks->at(at), state.blocks->at(at + s_.block.crc_at()), bytes, &head))
      return findings_.add("{}: its block's checksum is wrong", where);
    if (head.generation != entry.generation)
      findings_.add("{}: names generation {}, the block has {}", where, entry.generation, head.generation);
    const kv::Key key{bytes.data() + s_.block.key_at(), head.key_bytes};
    const Places places = s_.shape.places(key);
    const auto suffix = static_cast<std::uint32_t>(header >> 32);
    const std::uint64_t in_subtable = slot - s_.shape.subtable_bytes() * suffix;
    const auto covers = [&](std::uint64_t at) {
      return in_subtable > at && in_subtable < at + combined_bytes;
    };
    if (places.node != node || low(places.suffix, depth_of(header)) != suffix ||
        std::ranges::none_of(places.bucket, covers))
      findings_.add("{}: no slot of its key", where);
    if (places.fingerprint != entry.fingerprint) findings_.add("{}: not its key's fingerprint", where);
    const std::string name(reinterpret_cast<const char*>(key.data), key.size);
    if (!keys_.insert(name).second) findings_.add("{}: its key is in another slot as well", where);
  }

  // Reports free blocks of a worker that a slot names too, or that are free twice.
  void look_at_free(fabric::NodeId node, const WorkerState& own) {
    own.free[node].for_each([&](const Block& block) {
      if (!named_.insert(block.number).second)
        findings_.add("node {}: block {} is free and in use", node, block.number);
    });
  }

  const Settings& s_;
  const std::map<fabric::NodeId, NodeState>& nodes_;
  bool has_dead_clients_;
  std::set<std::uint64_t> named_;
  std::set<std::string> keys_;
  kv::Findings findings_;
};

}  // namespace

std::vector<std::string> RaceStore::audit(const std::vector<fabric::NodeId>& lost) const {
  // The published variant is not audited: it is known to leave two entries of one key.
  if (!settings_->rules.parks_blocks) return {};
  const auto drives = [&](fabric::NodeId node) { return settings_->config.drives(node); };
  Audit audit(*settings_, nodes_, std::ranges::any_of(lost, drives));
  for (const auto& [node, state] : nodes_) {
    if (state.table != nullptr && std::ranges::find(lost, node) == lost.end()) audit.look_at(node, state);
  }
  return audit.findings();
}

}  // namespace loch::race
