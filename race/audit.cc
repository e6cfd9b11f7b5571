// Audits the tables at rest, when no operation is under way: each key once, nothing pending, no block in two
// places.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/fabric/memory.h"
#include "race/store.h"

namespace loch::race {
namespace {

class Audit {
 public:
  Audit(const Settings& settings, const std::map<fabric::NodeId, NodeState>& nodes, bool has_dead_clients)
      : s_(settings), nodes_(nodes), has_dead_clients_(has_dead_clients) {}

  void look_at(fabric::NodeId node, const NodeState& state) {
    named_.clear();
    for (std::uint64_t at = 0; at < s_.shape.table_bytes(); at += bucket_bytes) {
      const auto suffix = static_cast<std::uint32_t>(at / (s_.shape.groups * group_bytes));
      if (fabric::load_word(state.table->at(at)) != header_of(s_.shape.depth, suffix))
        find("node {}: bucket at {} has another header", node, at);
      for (std::uint32_t i = 1; i <= slots_per_bucket; ++i) {
        const std::uint64_t slot = at + 8ULL * i;
        if (const Word word = fabric::load_word(state.table->at(slot)); word != 0)
          look_at_word(node, state, slot, word);
      }
    }
    for (const auto& [_, other] : nodes_) {
      for (const auto& own : other.workers) look_at_free(node, *own);
    }
  }

  [[nodiscard]] std::vector<std::string> findings() { return std::move(findings_); }

 private:
  template <typename... Args>
  void find(fmt::format_string<Args...> text, Args&&... args) {
    constexpr std::size_t most = 20;
    if (findings_.size() < most) findings_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void look_at_word(fabric::NodeId node, const NodeState& state, std::uint64_t slot, Word word) {
    const Entry entry = Entry::unpack(word);
    const std::string where = fmt::format("node {}, slot at {}", node, slot);
    if (is_free(word)) {
      if (!named_.insert(entry.block).second) find("{}: the block left there is in use", where);
      return;
    }
    if (entry.is_pending) {
      // Where a node crashed with its clients, nobody has taken their pending entries away.
      if (!has_dead_clients_) find("{}: pending for ever", where);
      return;
    }
    if (!named_.insert(entry.block).second) find("{}: its block is another slot's as well", where);
    std::vector<std::byte> bytes(s_.block.checked_bytes());
    BlockHead head;
    const std::uint64_t at = entry.block * block_unit;
    if (!read_block(s_.block, state.blocks->at(at), state.blocks->at(at + s_.block.crc_at()), bytes, &head))
      return find("{}: its block's checksum is wrong", where);
    if (head.generation != entry.generation)
      find("{}: names generation {}, the block has {}", where, entry.generation, head.generation);
    const kv::Key key{bytes.data() + s_.block.key_at(), head.key_bytes};
    const Places places = s_.shape.places(key);
    const auto covers = [&](std::uint64_t bucket) { return slot > bucket && slot < bucket + combined_bytes; };
    if (places.node != node || std::ranges::none_of(places.bucket, covers))
      find("{}: no slot of its key", where);
    if (places.fingerprint != entry.fingerprint) find("{}: not its key's fingerprint", where);
    const std::string name(reinterpret_cast<const char*>(key.data), key.size);
    if (!keys_.insert(name).second) find("{}: its key is in another slot as well", where);
  }

  // No free block of a worker is named by a slot, or free twice.
  void look_at_free(fabric::NodeId node, const WorkerState& own) {
    for (const Block& block : own.free[node]) {
      if (!named_.insert(block.number).second)
        find("node {}: block {} is free and in use", node, block.number);
    }
  }

  const Settings& s_;
  const std::map<fabric::NodeId, NodeState>& nodes_;
  bool has_dead_clients_;
  std::set<std::uint64_t> named_;
  std::set<std::string> keys_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> RaceStore::audit(const std::vector<fabric::NodeId>& lost) const {
  // The published variant is not audited: two entries of a key are what it is known for.
  if (!settings_->rules.parks_blocks) return {};
  const auto drives = [&](fabric::NodeId node) { return settings_->config.drives(node); };
  Audit audit(*settings_, nodes_, std::ranges::any_of(lost, drives));
  for (const auto& [node, state] : nodes_) {
    if (state.table != nullptr && std::ranges::find(lost, node) == lost.end()) audit.look_at(node, state);
  }
  return audit.findings();
}

}  // namespace loch::race
