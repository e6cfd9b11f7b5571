// Searches for leaked entries: reads all index words first, then the entries that none of them names.
#include "nessie/leaks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/coro/co_try.h"
#include "common/fabric/memory.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/reach.h"
#include "nessie/scan.h"
#include "nessie/stamps.h"

namespace loch::nessie {
namespace {

using Where = std::pair<std::uint32_t, std::uint32_t>;  // an entry's node and index
using Orphans = std::map<Where, EntryId>;

struct Named {
  // whether the whole index could be read; if not, an entry that is not in `entries` may be named by an index
  // word, too
  bool is_known = true;
  bool is_whole = true;  // whether every entry could be read
  std::set<Where> entries;
  std::set<std::uint32_t> silent;  // nodes that did not answer; no further entry of such a node is read
};

// Records the entry that a word names and, if that entry is pending, its previous version.
coro::Task<void> name_entries(Access access, Word word, Named* named) {
  const EntryId id = access.settings().format.entry(word);
  named->entries.emplace(id.node, id.index);
  if (named->silent.contains(id.node)) co_return;
  const Fetched entry = co_await fetch(access, word, Extent::header);
  if (!entry.ok && id.node != access.node().node &&
      !access.worker().connected(static_cast<fabric::NodeId>(id.node))) {
    named->silent.insert(id.node);
    named->is_whole = false;
  }
  if (!entry.ok || is_committed(access.settings(), word, entry.meta) || entry.prev == 0) co_return;
  const EntryId previous = access.settings().format.entry(entry.prev);
  named->entries.emplace(previous.node, previous.index);
}

coro::Task<Named> find_named(Access access) {
  Named named;
  for (std::uint32_t share = 0; share < access.settings().config.nodes; ++share) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(&access.lane, share, &found);
    named.is_known = is_read;
    if (!is_read) co_return named;
    for (const Finding& each : found) {
      if (access.settings().format.is_empty(each.word)) continue;
      if (names_lost_memory(access.lane, each.word)) {
        // The word names memory that was declared lost: a rollback during the repair of a dead client has
        // written the word again. read_index() empties such a slot, so that the lost node need not be asked
        // for the entry.
        const WordRead read = co_await read_index(access, each.place);
        named.is_whole = named.is_whole && read.ok;
        continue;
      }
      co_await name_entries(access, each.word, &named);
    }
  }
  co_return named;
}

// Examines an entry that no index word names, and records it as possibly leaked if it is neither free nor
// stamped (marked for reuse). Returns false if the entry cannot be read.
coro::Task<bool> look_at_entry(Lane* lane, std::uint32_t node, std::uint32_t index, Orphans* orphans) {
  const EntryLayout& entry = lane->settings.entry;
  const fabric::LocalSlice landing{lane->node.words, lane->word_at(lane_pair)};
  const std::uint64_t at = index * entry.stride() + entry.stamp_at();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const fabric::Completion done = co_await lane->worker.read(lane->own.peers[node].data, at, landing, 16);
    if (done.ok()) {
      const Word stamp_word = fabric::load_word(lane->node.words->at(landing.offset));
      const EntryMeta meta = EntryMeta::unpack(fabric::load_word(lane->node.words->at(landing.offset + 8)));
      const bool is_used = Stamp::is_live(stamp_word) && meta.kind != EntryKind::free;
      if (is_used)
        orphans->try_emplace({node, index}, EntryId{node, index, meta.generation, meta.incarnation});
      co_return true;
    }
    LOCH_CO_TRY(reconnect(lane, static_cast<fabric::NodeId>(node)));
  }
  co_return false;
}

// Collects possibly leaked entries. Returns false if a part of the index or the entries of a node could
// not be read.
coro::Task<bool> find_orphans(Access access, Orphans* orphans) {
  const Settings& settings = access.settings();
  const Named named = co_await find_named(access);
  if (!named.is_known) co_return false;
  bool is_whole = named.is_whole;
  for (std::uint32_t node = 0; node < settings.config.nodes; ++node) {
    if (named.silent.contains(node)) continue;
    for (std::uint32_t index = 0; index < settings.entries_per_node; ++index) {
      if (named.entries.contains({node, index})) continue;
      if (access.lane.worker.stopping()) co_return false;  // the run was given up
      const bool is_read = co_await look_at_entry(&access.lane, node, index, orphans);
      if (is_read) continue;
      // A node that cannot be read does not make the scan incomplete if it was declared lost: its entries are
      // gone.
      const Peer& peer = access.own().peers[node];
      is_whole = is_whole && (peer.is_gone || peer.incarnation > 0);
      break;
    }
  }
  co_return is_whole;
}

}  // namespace

coro::Task<LeakScan> stamp_leaks(Access access) {
  LeakScan scan;
  if (access.settings().is_remote()) co_return scan;  // no entry of a memory node names its owner
  Orphans orphans;
  const bool is_whole = co_await find_orphans(access, &orphans);
  for (const auto& [where, id] : orphans) {
    if (access.lane.has(Flaw::leak_scan_stamps)) co_await recycle(access, id);
    if (!access.lane.has(Flaw::leak_scan_stamps)) co_await suspect(access, id);
  }
  scan.is_whole = is_whole;
  scan.found = orphans.size();
  co_return scan;
}

}  // namespace loch::nessie
