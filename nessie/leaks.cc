// The leak scan (H15): a DTE that no index word and no pending entry names, and that is neither free nor
// stamped, may have been lost by a client that died between unlinking and stamping. It may as well be in the
// hands of a client that is slow; so its owner is told of the suspicion and finds out by itself (doubts.cc).
#include <algorithm>
#include <set>

#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<std::uint64_t> Session::stamp_leaks() {
  std::set<Orphan> orphans;
  co_await find_orphans(&orphans);
  for (const Orphan& orphan : orphans) {
    const EntryId id = orphan.id;
    if (has(Flaw::leak_scan_stamps)) co_await recycle(id);
    if (!has(Flaw::leak_scan_stamps)) co_await suspect(id);
  }
  co_return orphans.size();
}

coro::Task<void> Session::find_orphans(std::set<Orphan>* orphans) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> named;  // node and index
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(node, &found);
    if (!is_read) {
      orphans->clear();  // what that index names is unknown
      co_return;
    }
    for (const Finding& each : found) {
      if (settings_.format.is_empty(each.word)) continue;
      const EntryId id = settings_.format.entry(each.word);
      named.emplace(id.node, id.index);
      const Fetched entry = co_await fetch(each.word, Extent::header);
      if (!entry.ok || is_committed(each.word, entry.meta) || entry.prev == 0) continue;
      const EntryId previous = settings_.format.entry(entry.prev);
      named.emplace(previous.node, previous.index);
    }
  }
  const EntryLayout& entry = settings_.entry;
  const fabric::LocalSlice landing{node_.words, word_at(lane_pair)};
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    for (std::uint32_t index = 0; index < settings_.entries_per_node; ++index) {
      if (named.contains({node, index})) continue;
      const std::uint64_t at = index * entry.stride() + entry.stamp_at();
      const fabric::Completion done = co_await worker_.read(own_.peers[node].data, at, landing, 16);
      if (!done.ok()) break;
      const Word stamp_word = fabric::load_word(node_.words->at(landing.offset));
      const EntryMeta meta = EntryMeta::unpack(fabric::load_word(node_.words->at(landing.offset + 8)));
      const bool is_used = Stamp::is_live(stamp_word) && meta.kind != EntryKind::free;
      if (is_used) orphans->insert({{node, index, meta.generation, meta.incarnation}});
    }
  }
}

}  // namespace loch::nessie
