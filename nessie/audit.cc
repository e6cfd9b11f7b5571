// Audits the tables at rest, when no operation is under way and every worker's background work has ended.
// Whatever the audit finds is a bug, or was left behind by a dead client and not repaired yet.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/fabric/memory.h"
#include "common/kv/findings.h"
#include "nessie/members.h"
#include "nessie/store.h"

namespace loch::nessie {
namespace {

class Audit {
 public:
  Audit(const Settings& settings, const std::map<fabric::NodeId, NodeState>& nodes,
        const std::set<std::uint32_t>& lost)
      : s_(settings), nodes_(nodes), lost_(lost) {}

  std::vector<std::string> run() {
    read_members();
    for (std::uint32_t share = 0; share < s_.config.serving_nodes(); ++share) look_at_share(share);
    for (const auto& [node, state] : nodes_) {
      if (!lost_.contains(node) && !s_.is_remote()) look_at_entries(node, state);
      if (!lost_.contains(node) && s_.is_remote()) look_at_waiting(node, state);
    }
    for (const auto& [node, state] : nodes_) {
      if (!lost_.contains(node) && s_.is_remote() && state.data != nullptr) look_at_holdings(node);
    }
    return findings_.take();
  }

 private:
  // Reads the newest copy of the member table (incarnation of each node, and place of its share of the index)
  // among the nodes that are up.
  void read_members() {
    Word newest = 0;
    for (std::uint32_t i = 0; i < s_.config.nodes; ++i) members_.push_back(Member::initial(i));
    for (const auto& [node, state] : nodes_) {
      const Word version = fabric::load_word(state.members->at(0));
      if (lost_.contains(node) || version <= newest) continue;
      newest = version;
      for (std::uint32_t i = 0; i < s_.config.nodes; ++i)
        members_[i] = Member::unpack(fabric::load_word(state.members->at(8 * (1 + i))), i);
    }
  }

  void look_at_share(std::uint32_t share) {
    const Member& member = members_[share];
    if (member.is_void || lost_.contains(member.host)) return;
    const auto host = nodes_.find(static_cast<fabric::NodeId>(member.host));
    if (host == nodes_.end()) return;
    for (std::uint64_t slot = 0; slot < s_.slots_per_node; ++slot) {
      const Word word = fabric::load_word(host->second.index->at(member.area * s_.share_bytes() + slot * 8));
      const cuckoo::Place place{share, slot};
      if (!WordFormat::is_stored(word)) {
        findings_.add("slot {}.{} was never laid out", share, slot);
      } else if (s_.format.is_empty(word)) {
        look_at_tag(place, word);
      } else {
        look_at_word(place, word);
      }
    }
  }

  [[nodiscard]] bool is_void(const EntryId& id) const {
    return id.node >= members_.size() || lost_.contains(id.node) ||
           is_older(id.incarnation, members_[id.node].incarnation % incarnations);
  }
  [[nodiscard]] const NodeState* owner_of(const EntryId& id) const {
    const auto found = nodes_.find(static_cast<fabric::NodeId>(id.node));
    const bool is_there = found != nodes_.end() && found->second.data != nullptr;
    return !is_there || id.index >= s_.entries_per_node ? nullptr : &found->second;
  }
  [[nodiscard]] Word word_of(const NodeState& state, const EntryId& id, std::uint32_t within) const {
    return fabric::load_word(state.data->at(id.index * s_.entry.stride() + within));
  }

  // An EMPTY slot from which a MIGRATE (move of a key) moved an entry is reserved by its tag until the
  // MIGRATE has committed its copy. A reservation that is left at the end of a run is a finding.
  void look_at_tag(const cuckoo::Place& place, Word word) {
    if (!s_.format.is_tagged(word)) return;
    const EntryId id = s_.format.entry(word);
    const NodeState* state = is_void(id) ? nullptr : owner_of(id);
    if (state == nullptr) return;
    const EntryMeta meta = EntryMeta::unpack(word_of(*state, id, s_.entry.meta_at()));
    const bool is_its = meta.generation == id.generation && meta.kind == EntryKind::copy;
    if (is_its && !meta.is_valid && !is_share_missing())
      findings_.add("slot {}.{} is reserved for ever", place.node, place.slot);
  }

  void look_at_word(const cuckoo::Place& place, Word word) {
    const EntryId id = s_.format.entry(word);
    const std::string where =
        fmt::format("slot {}.{} (entry {}.{})", place.node, place.slot, id.node, id.index);
    if (is_void(id)) {
      if (!lost_.contains(id.node)) findings_.add("{}: names memory that was declared lost", where);
      return;
    }
    const NodeState* state = owner_of(id);
    if (state == nullptr) return;
    linked_.insert({id.node, id.index});
    const Word stored = word_of(*state, id, s_.entry.meta_at());
    const EntryMeta meta = EntryMeta::unpack(stored);
    if (!WordFormat::is_stored(stored)) return findings_.add("{}: its memory is gone", where);
    if (s_.format.has_generation() && meta.generation != id.generation)
      return findings_.add("{}: names generation {}, the entry is {}", where, id.generation, meta.generation);
    if (meta.kind == EntryKind::free) return findings_.add("{}: the entry is free", where);
    // If entries are committed by a CAS of the index word, only the word tells whether an entry is committed.
    // The entry's valid bit does not: the worker that owns the entry may have died before it set the bit; or
    // the rollback of a dead client's PUT may have restored the word after the repair of dead clients,
    // scrub(), had already repaired the entries of their owner, who is dead too. The valid bit of the copy
    // that a MIGRATE (move of a key) makes is used only while a slot is reserved for the copy
    // (look_at_tag()).
    const bool is_committed = s_.rules.commit == Commit::cas ? !s_.format.is_pending(word) : meta.is_valid;
    if (!is_committed) {
      if (!is_share_missing()) findings_.add("{}: pending for ever", where);
      return;
    }
    if (is_stamped(*state, id)) findings_.add("{}: linked and stamped", where);
    std::vector<std::byte> key(s_.entry.key_size());
    fabric::copy_from_shared(key.data(), state->data->at(id.index * s_.entry.stride()), key.size());
    cuckoo::KeyHash hash = s_.family.hash(key);
    if (hash.rank_of(place) == s_.functions()) return findings_.add("{}: no slot of its key", where);
    if (s_.format.filter(word) != hash.filter(s_.filter_bits))
      findings_.add("{}: not its key's filter", where);
    const std::string name(reinterpret_cast<const char*>(key.data()), key.size());
    const auto [other, is_first] = keys_.try_emplace(name, where);
    if (!is_first) findings_.add("{}: the same key as {}", where, other->second);
  }

  // Whether the entry has a stamp (a mark that it has left the index, with the time from which it may be
  // reused) for its present use. A stamp that only suspects that the entry has left the index does not count.
  [[nodiscard]] bool is_stamped(const NodeState& state, const EntryId& id) const {
    const Word word = word_of(state, id, s_.entry.stamp_at());
    if (Stamp::is_live(word)) return false;
    const Stamp stamp = Stamp::unpack(word, 0);
    if (stamp.is_suspicion) return false;
    const EntryMeta meta = EntryMeta::unpack(word_of(state, id, s_.entry.meta_at()));
    return !s_.format.has_generation() || stamp.generation == meta.generation;
  }

  // Whether a share of the index (the part that one node holds initially) lies on no node, because the node
  // that held the share is gone and no other node had room for it. Then nobody can say which entries the
  // share's words named, and an operation on one of its slots cannot end.
  [[nodiscard]] bool is_share_missing() const {
    return std::ranges::any_of(
        members_, [&](const Member& share) { return share.is_void || lost_.contains(share.host); });
  }

  // Whether leaked entries are expected, because a client died after it had unlinked an entry and before it
  // stamped the entry (marked it for reuse), and no leak scan was run.
  [[nodiscard]] bool may_leak() const {
    if (is_share_missing()) return true;
    if (s_.scrub_finds_leaks && s_.scrub_repairs) return false;
    for (const auto& [node, state] : nodes_) {
      for (const auto& worker : state.workers) {
        if (worker->is_abandoned) return true;
      }
    }
    return false;
  }

  // Checks that every entry that was ever used is linked in the index, free, or stamped (marked for reuse).
  void look_at_entries(fabric::NodeId node, const NodeState& state) {
    for (const auto& worker : state.workers) {
      if (worker->is_abandoned) continue;  // the owner died, so that nobody allocates these entries any more
      const std::set<std::uint32_t> free(worker->table.free_entries().begin(),
                                         worker->table.free_entries().end());
      std::uint64_t leaked = 0, freed_and_linked = 0;
      std::uint32_t first = 0;
      for (std::uint32_t index = 0; index < s_.entries_per_node; ++index) {
        if (!worker->table.was_used(index)) continue;
        const bool is_linked = linked_.contains({node, index});
        if (free.contains(index)) {
          freed_and_linked += is_linked ? 1 : 0;
          continue;
        }
        const EntryId id = worker->table.current(index);
        const EntryMeta meta = EntryMeta::unpack(word_of(state, id, s_.entry.meta_at()));
        const bool is_marked = !Stamp::is_live(word_of(state, id, s_.entry.stamp_at()));
        if (is_linked || is_marked || meta.kind == EntryKind::free) continue;
        if (leaked++ == 0) first = index;
      }
      if (leaked > 0 && !may_leak())
        findings_.add("node {}: {} entries leaked, the first: {}", node, leaked, first);
      if (freed_and_linked > 0)
        findings_.add("node {}: {} entries are both free and linked", node, freed_and_linked);
    }
    look_at_waiting(node, state);
  }

  // Checks that the node's workers have left nothing to be done.
  void look_at_waiting(fabric::NodeId node, const NodeState& state) {
    for (const auto& worker : state.workers) {
      if (worker->is_abandoned) continue;
      // While a share of the index (the part of one node) lies on no node, stamps of entries (marks for
      // reuse) and unfinished operations that need the share's slots cannot be completed.
      if (is_share_missing()) continue;
      if (!worker->unlinked.empty())
        findings_.add("node {}: {} marks still wait", node, worker->unlinked.size());
      if (!worker->unfinished.empty())
        findings_.add("node {}: {} words left unfinished", node, worker->unfinished.size());
    }
  }

  // Checks that every entry of a memory node is linked or owned by one worker, but for those that dead
  // clients owned, and those of which nobody knows who owns them.
  void look_at_holdings(fabric::NodeId node) {
    std::vector<std::uint32_t> holders(s_.entries_per_node);
    std::vector<bool> was_given(s_.entries_per_node);
    for (std::uint64_t i = 0; i < s_.preloaded_on(node); ++i) was_given[i] = true;
    std::uint64_t given_up = 0, linked_and_owned = 0, owned_twice = 0, leaked = 0;
    bool has_dead = nodes_.size() < s_.config.nodes || !lost_.empty();
    for (const auto& [_, state] : nodes_) {
      for (const auto& worker : state.workers) {
        has_dead = has_dead || worker->is_abandoned;
        given_up += worker->holdings->counts().given_up;
        for (const std::uint32_t index : worker->holdings->owned(node)) ++holders[index];
        for (const chunks::Chunk& run : worker->holdings->granted(node)) {
          for (std::uint32_t i = 0; i < run.count; ++i) was_given[run.first + i] = true;
        }
      }
    }
    for (std::uint32_t index = 0; index < s_.entries_per_node; ++index) {
      const bool is_linked = linked_.contains({node, index});
      owned_twice += holders[index] > 1 ? 1 : 0;
      linked_and_owned += is_linked && holders[index] > 0 ? 1 : 0;
      leaked += was_given[index] && !is_linked && holders[index] == 0 ? 1 : 0;
    }
    if (owned_twice > 0) findings_.add("node {}: {} entries have two owners", node, owned_twice);
    if (linked_and_owned > 0)
      findings_.add("node {}: {} entries are both linked and owned", node, linked_and_owned);
    if (leaked > given_up && !has_dead && !is_share_missing())
      findings_.add("node {}: {} entries leaked, {} were given up", node, leaked, given_up);
  }

  const Settings& s_;
  const std::map<fabric::NodeId, NodeState>& nodes_;
  const std::set<std::uint32_t>& lost_;
  std::vector<Member> members_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> linked_;
  std::map<std::string, std::string> keys_;
  kv::Findings findings_;
};

}  // namespace

std::vector<std::string> NessieStore::audit(const std::vector<fabric::NodeId>& lost) const {
  // The published variants are not audited: they are known to leave entries behind (an aborted PUT leaves a
  // pending entry, H3 and H11 in docs/protocols/nessie.md).
  if (!settings_->format.has_incarnation()) return {};
  const std::set<std::uint32_t> gone(lost.begin(), lost.end());
  return Audit(*settings_, nodes_, gone).run();
}

}  // namespace loch::nessie
