// Examines entries in doubt, that is, entries of which it is unknown whether an index word names them, by
// reading the candidate slots of each entry's key.
#include "nessie/doubts.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/stamps.h"
#include "nessie/verify.h"

namespace loch::nessie {
namespace {

enum class Linked : std::uint8_t { yes, no, unknown };

// Whether an operation of this worker that is under way, or was left unfinished, uses the entry.
bool is_in_hand(const WorkerState& own, const EntryId& id) {
  const auto has = [&](const InHand* hand) { return hand->has(id); };
  if (std::ranges::any_of(own.in_hand, has)) return true;
  return std::ranges::any_of(own.unfinished, [&](const Unfinished& left) { return left.entry == id; });
}

// Reads the candidate slots of the entry's key. yes: a word names the entry. unknown: a slot or entry could
// not be read, or a pending entry has this entry as its previous version.
coro::Task<Linked> collect_links(Access access, EntryId id, cuckoo::KeyHash* hash, SeenWords* words) {
  const Settings& settings = access.settings();
  for (std::uint32_t i = 0; i < settings.functions(); ++i) {
    const cuckoo::Place place = hash->candidate(i);
    const WordRead read = co_await read_index(access, place);
    if (!read.ok) co_return Linked::unknown;
    (*words)[i] = read.word;
    if (settings.format.is_empty(read.word)) continue;
    if (settings.format.names(read.word, id)) co_return Linked::yes;
    if (!holds_filter(settings, read.word, *hash)) continue;
    const Fetched other = co_await fetch(access, read.word, Extent::header);
    if (!other.ok) co_return Linked::unknown;
    const bool is_held = !is_committed(settings, read.word, other.meta) && other.prev != 0 &&
                         settings.format.names(other.prev, id);
    if (is_held && !access.lane.has(Flaw::doubt_ignores_previous))
      co_return Linked::unknown;  // if `other` is rolled back, a word will name this entry again
  }
  co_return Linked::no;
}

coro::Task<Linked> find_links(Access access, EntryId id) {
  const Settings& settings = access.settings();
  std::vector<std::byte> key(settings.entry.key_size());
  fabric::copy_from_shared(key.data(), access.node().data->at(access.own().table.offset(id.index)),
                           key.size());
  cuckoo::KeyHash hash = settings.family.hash(key);
  static_cast<void>(hash.candidate(settings.functions() - 1));
  SeenWords before{};
  SeenWords after{};
  Linked linked = co_await collect_links(access, id, &hash, &before);
  if (linked != Linked::no) co_return linked;
  linked = co_await collect_links(access, id, &hash, &after);
  if (linked != Linked::no) co_return linked;
  co_return before == after ? Linked::no : Linked::unknown;
}

}  // namespace

coro::Task<void> settle_doubts(Lane* lane) {
  WorkerState& own = lane->own;
  // largest number of entries in doubt (unknown whether an index word names them) that one call examines
  constexpr std::uint32_t most = 16;
  std::vector<std::uint32_t> again;
  for (std::uint32_t i = 0; i < most; ++i) {
    const std::optional<EntryId> id = own.table.take_doubt();
    if (!id) break;
    const Access access{.lane = *lane, .started = lane->worker.now()};
    const std::uint64_t at = own.table.offset(id->index);
    const EntryMeta meta =
        EntryMeta::unpack(fabric::load_word(lane->node.data->at(at + lane->settings.entry.meta_at())));
    if (meta.kind == EntryKind::free) continue;
    if (is_in_hand(own, *id)) {
      again.push_back(id->index);
      continue;
    }
    const EntryId entry = *id;
    const Linked linked = co_await find_links(access, entry);
    // The entry may have been reused, or marked as having left the index, while the index was read.
    const EntryId now = own.table.current(entry.index);
    if (now != entry) continue;
    if (linked == Linked::unknown || is_in_hand(own, entry)) {
      LOCH_PROBE("nessie.doubt-stays");
      again.push_back(entry.index);
    } else if (linked == Linked::yes) {
      LOCH_PROBE("nessie.doubt-cleared");
      ++own.counters.doubts_cleared;
    } else {
      LOCH_PROBE("nessie.doubt-was-a-leak");
      ++own.counters.leaks_found;
      co_await recycle(access, entry);
    }
  }
  for (const std::uint32_t index : again) own.table.doubt(index);
}

}  // namespace loch::nessie
