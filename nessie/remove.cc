// Makes one attempt of a DELETE that writes no tombstone.
#include "nessie/remove.h"

#include "common/base/probe.h"
#include "nessie/slot.h"
#include "nessie/stamps.h"
#include "nessie/verify.h"

namespace loch::nessie {

coro::Task<Attempt> remove_by_single_cas(Access access, kv::Key key, cuckoo::KeyHash* hash) {
  const WordFormat& format = access.settings().format;
  const std::uint32_t functions = access.settings().functions();
  SeenWords seen{};
  co_await access.worker().compute(static_cast<Nanos>(functions) * access.worker().costs().hash(key.size));
  for (std::uint32_t i = 0; i < functions; ++i) {
    const cuckoo::Place place = hash->candidate(i);
    const SlotSeen slot = co_await look_at_slot(access, place, key, hash);
    if (slot.ended != Attempt::ok) co_return slot.ended;
    seen[i] = slot.word;
    if (slot.holder == Holder::other_key) continue;
    if (slot.holder == Holder::pending) co_return Attempt::conflict;
    if (access.is_over_age()) co_return Attempt::expired;
    // Every DELETE that removes this word writes the same EMPTY word, so that finding it in the slot does not
    // prove whose CAS wrote it (case A1 in docs/protocols/nessie.md).
    const Swap swap = co_await take_back(access, place, slot.word, format.emptied(slot.word), Proof::none);
    const EntryId removed = format.entry(slot.word);
    if (swap.outcome == Swap::Outcome::unknown) {
      LOCH_PROBE("nessie.single-delete-unknown");
      co_await suspect(access, removed);
      co_return Attempt::ambiguous;
    }
    if (!swap.done()) co_return Attempt::conflict;
    co_await recycle(access, removed);
    co_return Attempt::ok;
  }
  co_return co_await confirm_absent(access, hash, seen);
}

coro::Task<Attempt> clear_all_ranks(Access access, kv::Key key, cuckoo::KeyHash* hash) {
  const WordFormat& format = access.settings().format;
  const std::uint32_t functions = access.settings().functions();
  bool removed_any = false;
  co_await access.worker().compute(static_cast<Nanos>(functions) * access.worker().costs().hash(key.size));
  for (std::uint32_t i = functions; i-- > 0;) {
    const cuckoo::Place place = hash->candidate(i);
    const SlotSeen slot = co_await look_at_slot(access, place, key, hash);
    if (slot.ended != Attempt::ok) co_return slot.ended;
    if (slot.holder == Holder::other_key) continue;
    const Swap swap = co_await swap_index(access, place, slot.word, format.emptied(slot.word), Proof::none);
    if (swap.outcome == Swap::Outcome::unknown) co_return Attempt::ambiguous;
    if (!swap.done()) co_return Attempt::conflict;
    co_await recycle(access, format.entry(slot.word));
    removed_any = true;
  }
  co_return removed_any ? Attempt::ok : Attempt::not_found;
}

}  // namespace loch::nessie
