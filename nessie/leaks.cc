// The leak scan (H15): a DTE that no index word and no pending entry names, and that is neither free nor
// stamped, may have been lost by a client that died between unlinking and stamping. It may as well be in the
// hands of a client that is slow; so its owner is told of the suspicion and finds out by itself (doubts.cc).
#include <algorithm>
#include <set>

#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<Session::LeakScan> Session::stamp_leaks() {
  LeakScan scan;
  std::set<Orphan> orphans;
  scan.is_whole = co_await find_orphans(&orphans);
  for (const Orphan& orphan : orphans) {
    const EntryId id = orphan.id;
    if (has(Flaw::leak_scan_stamps)) co_await recycle(id);
    if (!has(Flaw::leak_scan_stamps)) co_await suspect(id);
  }
  scan.found = orphans.size();
  co_return scan;
}

// False: a part of the index could not be read, so that nothing is known, or the entries of a node.
coro::Task<bool> Session::find_orphans(std::set<Orphan>* orphans) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> named;  // node and index
  std::set<std::uint32_t> silent;  // nodes that did not answer: one wait for each, not one for each entry
  bool is_whole = true;
  for (std::uint32_t share = 0; share < settings_.config.nodes; ++share) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(share, &found);
    if (!is_read) co_return false;
    for (const Finding& each : found) {
      if (settings_.format.is_empty(each.word)) continue;
      if (names_lost_memory(each.word)) {
        // What scrub took back a moment ago has brought it back: nobody's, and no reason to wait for its
        // node.
        const WordRead read = co_await read_index(each.place);
        is_whole = is_whole && read.ok;
        continue;
      }
      const EntryId id = settings_.format.entry(each.word);
      named.emplace(id.node, id.index);
      if (silent.contains(id.node)) continue;
      const Fetched entry = co_await fetch(each.word, Extent::header);
      if (!entry.ok && id.node != node_.node && !worker_.connected(static_cast<fabric::NodeId>(id.node))) {
        silent.insert(id.node);
        is_whole = false;
      }
      if (!entry.ok || is_committed(each.word, entry.meta) || entry.prev == 0) continue;
      const EntryId previous = settings_.format.entry(entry.prev);
      named.emplace(previous.node, previous.index);
    }
  }
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    if (silent.contains(node)) continue;
    for (std::uint32_t index = 0; index < settings_.entries_per_node; ++index) {
      if (named.contains({node, index})) continue;
      const bool is_read = co_await look_at_entry(node, index, orphans);
      if (is_read) continue;
      // A node that is lost has nothing to look for.
      is_whole = is_whole && (own_.peers[node].is_gone || own_.peers[node].incarnation > 0);
      break;
    }
  }
  co_return is_whole;
}

// Of an entry that no word names: is it in use?
coro::Task<bool> Session::look_at_entry(std::uint32_t node, std::uint32_t index, std::set<Orphan>* orphans) {
  const EntryLayout& entry = settings_.entry;
  const fabric::LocalSlice landing{node_.words, word_at(lane_pair)};
  const std::uint64_t at = index * entry.stride() + entry.stamp_at();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const fabric::Completion done = co_await worker_.read(own_.peers[node].data, at, landing, 16);
    if (done.ok()) {
      const Word stamp_word = fabric::load_word(node_.words->at(landing.offset));
      const EntryMeta meta = EntryMeta::unpack(fabric::load_word(node_.words->at(landing.offset + 8)));
      const bool is_used = Stamp::is_live(stamp_word) && meta.kind != EntryKind::free;
      if (is_used) orphans->insert({{node, index, meta.generation, meta.incarnation}});
      co_return true;
    }
    const bool is_back = co_await reconnect(static_cast<fabric::NodeId>(node));
    if (!is_back) co_return false;
  }
  co_return false;
}

}  // namespace loch::nessie
