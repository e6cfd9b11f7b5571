// Reads and classifies slots for PUT, DELETE and MIGRATE (move of a key).
#include "nessie/slot.h"

#include "nessie/entry.h"

namespace loch::nessie {

coro::Task<Holder> who_holds(Access access, kv::Key key, Word word, Nanos read_at) {
  const std::optional<Looked> cached = look_in_cache(access, word, read_at, key);
  if (cached) {
    co_await access.worker().compute(access.worker().costs().compare(key.size));
    access.lane.pinned.release();
    co_return cached->look == Look::other_key ? Holder::other_key : Holder::committed;
  }
  const Fetched found = co_await fetch_for(access, word, Extent::header, key);
  if (!found.ok) co_return found.why == Attempt::expired ? Holder::expired : Holder::failed;
  if (!found.is_key) co_return Holder::other_key;
  co_return is_committed(access.settings(), word, found.meta) ? Holder::committed : Holder::pending;
}

coro::Task<SlotSeen> look_at_slot(Access access, cuckoo::Place place, kv::Key key, cuckoo::KeyHash* hash) {
  SlotSeen slot;
  const Nanos read_at = access.worker().now();
  const WordRead read = co_await read_index(access, place);
  if (!read.ok) {
    slot.ended = Attempt::link_error;
    co_return slot;
  }
  slot.word = read.word;
  if (!holds_filter(access.settings(), read.word, *hash)) co_return slot;
  const Holder holder = co_await who_holds(access, key, read.word, read_at);
  slot.holder = holder;
  slot.ended = ended_by(holder).value_or(Attempt::ok);
  co_return slot;
}

coro::Task<Reserve> is_reserved(Access access, Word word) {
  const Settings& settings = access.settings();
  const bool is_honoured = settings.rules.migrate_tags && !access.lane.has(Flaw::reserved_slot_is_free);
  if (!is_honoured || !settings.format.is_tagged(word)) co_return Reserve::free;
  const Fetched copy = co_await fetch(access, word, Extent::header);
  // The slot is not reserved if the copy that the MIGRATE (move of a key) made has been reused as another
  // entry, or its node declared lost.
  if (copy.is_replaced || copy.is_gone) co_return Reserve::free;
  if (!copy.ok) co_return copy.why == Attempt::expired ? Reserve::expired : Reserve::failed;
  const bool is_unfinished = copy.meta.kind == EntryKind::copy && !copy.meta.is_valid &&
                             settings.format.is_same_generation(word, copy.meta.generation);
  if (is_unfinished) ++access.own().counters.reserved_slots;
  co_return is_unfinished ? Reserve::reserved : Reserve::free;
}

}  // namespace loch::nessie
