// Searches for leaked entries: reads all index words first, then the headers of all entries, many with each
// READ.
#include "nessie/leaks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/coro/co_try.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/reach.h"
#include "nessie/scan.h"
#include "nessie/stamps.h"

namespace loch::nessie {
namespace {

using Where = std::pair<std::uint32_t, std::uint32_t>;  // an entry's node and index
using Orphans = std::map<Where, EntryId>;

// The index words that name entries, as the scan of the index has found them.
struct Named {
  // whether the whole index could be read; if not, an entry that no word in `by_node` names may be named by
  // an index word, too
  bool is_known = true;
  bool is_whole = true;  // whether every slot with a word that names lost memory could be read
  std::vector<std::vector<Word>> by_node;  // by the node of the entry, in the order of its entries
};

// What the headers of the entries show.
struct Seen {
  Orphans orphans;           // entries in use that no index word names
  std::set<Where> previous;  // entries that pending entries have as previous versions: not leaked
};

coro::Task<Named> find_named(RepairLanes* lanes) {
  Lane& lane = lanes->first();
  const WordFormat& format = lane.settings.format;
  Named named;
  named.by_node.resize(lane.settings.config.nodes);
  for (std::uint32_t share = 0; share < lane.settings.config.nodes; ++share) {
    std::vector<Finding> found;
    const bool is_read = co_await scan_index(&lane, share, &found);
    named.is_known = is_read;
    if (!is_read) co_return named;
    // Words that name memory that was declared lost: rollbacks during the repair of dead clients have written
    // them again. They are emptied, so that the lost node need not be asked for their entries.
    std::vector<Finding> lost;
    for (const Finding& each : found) {
      if (format.is_empty(each.word)) continue;
      if (names_lost_memory(lane, each.word)) {
        lost.push_back(each);
        continue;
      }
      const std::uint32_t node = format.entry(each.word).node;
      if (node < named.by_node.size()) named.by_node[node].push_back(each.word);
    }
    const bool are_emptied = co_await empty_lost(lanes, &lost);
    named.is_whole = named.is_whole && are_emptied;
  }
  for (std::vector<Word>& words : named.by_node)
    std::ranges::sort(words, {}, [&](Word word) { return format.entry(word).index; });
  co_return named;
}

// Records the previous version of an entry that an index word names, if the entry is pending. A header that
// is not of the entry that the word named shows nothing: the word has left the index since.
void look_at_named(const Settings& settings, Word word, const HeaderWords& header, Seen* seen) {
  const EntryMeta meta = EntryMeta::unpack(header.meta);
  const bool is_of_word = is_of(settings.format, meta, header.meta, settings.format.entry(word));
  if (!is_of_word && !settings.rules.misses_lost_memory) return;
  if (is_committed(settings, word, meta) || header.prev == 0) return;
  const EntryId previous = settings.format.entry(header.prev);
  seen->previous.emplace(previous.node, previous.index);
}

// Records an entry that no index word names as possibly leaked if it is neither free nor stamped (marked for
// reuse).
void look_at_other(std::uint32_t node, std::uint32_t index, const HeaderWords& header, Seen* seen) {
  const EntryMeta meta = EntryMeta::unpack(header.meta);
  const bool is_used = Stamp::is_live(header.stamp) && meta.kind != EntryKind::free;
  if (is_used)
    seen->orphans.try_emplace({node, index}, EntryId{node, index, meta.generation, meta.incarnation});
}

// Examines the entries of one node. `words` are the index words that name them. Returns false if the entries
// cannot be read.
coro::Task<bool> look_at_node(Lane* lane, fabric::NodeId node, const std::vector<Word>* words, Seen* seen) {
  const Settings& settings = lane->settings;
  const std::uint32_t most = headers_at_once(settings);
  std::vector<HeaderWords> headers;
  auto word = words->begin();
  for (std::uint32_t first = 0; first < settings.entries_per_node; first += most) {
    if (lane->worker.stopping()) co_return false;  // the run was given up
    LOCH_CO_TRY(read_headers(lane, node, first, std::min(most, settings.entries_per_node - first), &headers));
    for (std::uint32_t i = 0; i < headers.size(); ++i) {
      const auto names_it = [&] {
        return word != words->end() && settings.format.entry(*word).index == first + i;
      };
      if (!names_it()) look_at_other(node, first + i, headers[i], seen);
      for (; names_it(); ++word) look_at_named(settings, *word, headers[i], seen);
    }
  }
  co_return true;
}

// Collects possibly leaked entries. Returns false if a part of the index or the entries of a node could
// not be read.
coro::Task<bool> find_orphans(RepairLanes* lanes, Orphans* orphans) {
  Lane& lane = lanes->first();
  const Named named = co_await find_named(lanes);
  if (!named.is_known) co_return false;
  bool is_whole = named.is_whole;
  Seen seen;
  for (std::uint32_t each = 0; each < lane.settings.config.nodes; ++each) {
    const auto node = static_cast<fabric::NodeId>(each);
    const bool is_read = co_await look_at_node(&lane, node, &named.by_node[each], &seen);
    if (is_read) continue;
    // A node that cannot be read does not make the scan incomplete if it was declared lost and no index word
    // names an entry of it: its entries are gone.
    const Peer& peer = lane.own.peers[each];
    const bool is_gone = peer.is_gone || peer.incarnation > 0;
    is_whole = is_whole && is_gone && named.by_node[each].empty() && !lane.worker.stopping();
  }
  for (const Where& previous : seen.previous) seen.orphans.erase(previous);
  *orphans = std::move(seen.orphans);
  co_return is_whole;
}

// Empties the slot of a word that names lost memory.
coro::Task<void> empty_one(Lane* lane, cuckoo::Place place, bool* are_read) {
  const WordRead read = co_await read_index(begin_repair(*lane), place);
  *are_read = *are_read && read.ok;
}

}  // namespace

coro::Task<bool> empty_lost(RepairLanes* lanes, const std::vector<Finding>* words) {
  bool are_read = true;
  const RepairLanes::Repair empty = [&](Lane* lane, std::size_t i) {
    return empty_one(lane, (*words)[i].place, &are_read);
  };
  co_await lanes->each(words->size(), &empty);
  co_return are_read;
}

coro::Task<LeakScan> stamp_leaks(RepairLanes* lanes) {
  LeakScan scan;
  const Lane& lane = lanes->first();
  if (lane.settings.is_remote()) co_return scan;  // no entry of a memory node names its owner
  Orphans orphans;
  const bool is_whole = co_await find_orphans(lanes, &orphans);
  std::vector<EntryId> ids;
  for (const auto& [where, id] : orphans) ids.push_back(id);
  const bool stamps = lane.has(Flaw::leak_scan_stamps);
  const RepairLanes::Repair report = [&](Lane* by, std::size_t i) {
    return stamps ? recycle(begin_repair(*by), ids[i]) : suspect(begin_repair(*by), ids[i]);
  };
  co_await lanes->each(ids.size(), &report);
  scan.is_whole = is_whole;
  scan.found = orphans.size();
  co_return scan;
}

}  // namespace loch::nessie
