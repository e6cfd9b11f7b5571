// The leak scan (H15): a DTE that no index word and no pending entry names, that is neither free nor
// stamped, and that is still the same incarnation two expiry periods later, was lost by a client that
// died between unlinking and stamping. No live operation holds one that long.
#include <algorithm>
#include <set>

#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<std::uint64_t> Session::stamp_leaks() {
  std::set<Orphan> before;
  std::set<Orphan> after;
  co_await find_orphans(&before);
  if (before.empty()) co_return 0;
  co_await worker_.sleep_until(worker_.now() + 2 * settings_.expiry + settings_.clock_margin);
  co_await find_orphans(&after);
  std::uint64_t stamped = 0;
  for (const Orphan& orphan : before) {
    if (!after.contains(orphan)) continue;
    co_await stamp(orphan.id, worker_.node_clock() + settings_.expiry);
    ++stamped;
  }
  co_return stamped;
}

coro::Task<void> Session::find_orphans(std::set<Orphan>* orphans) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> named;  // node and index
  for (std::uint32_t node = 0; node < settings_.config.nodes; ++node) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(static_cast<fabric::NodeId>(node), &found);
    if (!is_read) {
      orphans->clear();  // what that index names is unknown
      co_return;
    }
    for (const Finding& each : found) {
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
      if (stamp_word == 0 && meta.kind != EntryKind::free) orphans->insert({{node, index, meta.generation}});
    }
  }
}

}  // namespace loch::nessie
