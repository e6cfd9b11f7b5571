// Entries of which nobody knows whether a word of the index still names them: an operation's last CAS ended
// in an error, a client died before it marked what it had replaced, a stamp arrived for another incarnation.
// The owner of such an entry finds out. It reads all slots that the entry's key can be in until two readings
// agree: a word that is in none of them, and is no pending entry's previous version, never comes back.
#include <array>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<void> Session::settle_doubts() {
  constexpr std::uint32_t most = 16;  // a turn
  std::vector<std::uint32_t> again;
  for (std::uint32_t i = 0; i < most; ++i) {
    const std::optional<EntryId> id = own_.table.take_doubt();
    if (!id) break;
    stats_ = nullptr;
    started_ = worker_.now();
    const std::uint64_t at = own_.table.offset(id->index);
    const EntryMeta meta =
        EntryMeta::unpack(fabric::load_word(node_.data->at(at + settings_.entry.meta_at())));
    if (meta.kind == EntryKind::free) continue;
    if (is_in_hand(*id)) {
      again.push_back(id->index);
      continue;
    }
    const EntryId entry = *id;
    const Linked linked = co_await find_links(entry);
    // Meanwhile it may have been marked, or be another one.
    const EntryId now = own_.table.current(entry.index);
    if (now != entry) continue;
    if (linked == Linked::unknown || is_in_hand(entry)) {
      LOCH_PROBE("nessie.doubt-stays");
      again.push_back(entry.index);
    } else if (linked == Linked::yes) {
      LOCH_PROBE("nessie.doubt-cleared");
      ++own_.counters.doubts_cleared;
    } else {
      LOCH_PROBE("nessie.doubt-was-a-leak");
      ++own_.counters.leaks_found;
      co_await recycle(entry);
    }
  }
  for (const std::uint32_t index : again) own_.table.doubt(index);
}

coro::Task<Session::Linked> Session::find_links(EntryId id) {
  std::vector<std::byte> key(settings_.entry.key_size());
  fabric::copy_from_shared(key.data(), node_.data->at(own_.table.offset(id.index)), key.size());
  cuckoo::KeyHash hash = settings_.family.hash(key);
  static_cast<void>(hash.candidate(settings_.functions() - 1));
  std::array<Word, cuckoo::max_functions> before{};
  std::array<Word, cuckoo::max_functions> after{};
  Linked linked = co_await collect_links(id, &hash, &before);
  if (linked != Linked::no) co_return linked;
  linked = co_await collect_links(id, &hash, &after);
  if (linked != Linked::no) co_return linked;
  co_return before == after ? Linked::no : Linked::unknown;
}

coro::Task<Session::Linked> Session::collect_links(EntryId id, cuckoo::KeyHash* hash,
                                                   std::array<Word, cuckoo::max_functions>* words) {
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = hash->candidate(i);
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Linked::unknown;
    (*words)[i] = read.word;
    if (settings_.format.is_empty(read.word)) continue;
    if (settings_.format.names(read.word, id)) co_return Linked::yes;
    if (!holds_filter(read.word, *hash)) continue;
    const Fetched other = co_await fetch(read.word, Extent::header);
    if (!other.ok) co_return Linked::unknown;
    const bool is_held =
        !is_committed(read.word, other.meta) && other.prev != 0 && settings_.format.names(other.prev, id);
    if (is_held && !has(Flaw::doubt_ignores_previous))
      co_return Linked::unknown;  // a rollback would bring it back
  }
  co_return Linked::no;
}

}  // namespace loch::nessie
