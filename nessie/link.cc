// Allocates, writes and links the entry of a PUT or DELETE.
#include "nessie/link.h"

#include "common/base/probe.h"
#include "nessie/entry.h"
#include "nessie/finish.h"
#include "nessie/index.h"
#include "nessie/remote.h"
#include "nessie/stamps.h"
#include "nessie/unfinished.h"

namespace loch::nessie {
namespace {

// Writes the operation's entry. Returns false if the entry's memory node cannot be reached.
coro::Task<bool> store_entry(Access access, Writing* w) {
  const Rules& rules = access.settings().rules;
  const InHand& hand = access.lane.in_hand;
  fabric::Worker& worker = access.worker();
  // The CPU time of the copy is charged once for each entry: an attempt that takes over an unlinked entry of
  // an earlier attempt finds key and value in it.
  if (!w->is_written) co_await worker.compute(worker.costs().copy(w->key.size + w->value.size));
  w->is_written = true;
  const EntryId id = hand.fresh ? *hand.fresh : hand.linked;
  const Word before = rules.links_before_write ? w->replaced : w->seen[w->rank];
  const Word prev = w->is_update && !rules.removes_before_commit ? before : 0;
  const EntryMeta meta{.is_valid = w->is_fast(rules), .kind = w->kind};
  write_entry(access.lane, id, meta, prev, w->key, w->value);
  if (access.own().holdings == nullptr) co_return true;
  co_return co_await place_entry(access, id);
}

// Ends an attempt whose linking CAS has an unknown outcome: the index slot may hold the new word `own`, or
// still the old word `expected`.
coro::Task<Attempt> leave_link(Access access, Writing* w, Word own, Word expected) {
  const EntryId linked = access.lane.in_hand.linked;
  if (w->is_fast(access.settings().rules)) {
    // Either the new or the replaced entry may be linked, so the owners of both are asked to examine them
    // (doubts.h).
    LOCH_PROBE("nessie.update-unknown");
    co_await suspect(access, linked);
    const EntryId replaced = access.settings().format.entry(expected);
    co_await suspect(access, replaced);
    co_return Attempt::ambiguous;
  }
  // The worker's background work will roll the CAS back (unfinished.h). The entry was never committed, so the
  // PUT has no effect.
  LOCH_PROBE("nessie.link-unknown");
  if (access.lane.has(Flaw::link_unknown_is_free)) {
    release_entry(access.lane, linked);
    co_return Attempt::link_error;
  }
  if (!access.settings().rules.settles_later) co_return Attempt::ambiguous;
  const cuckoo::Place place = w->hash.candidate(w->rank);
  access.own().unfinished.push_back(
      leave(access.lane, Unfinished::Step::take_back, place, own, expected, linked));
  co_return Attempt::link_error;
}

}  // namespace

coro::Task<Attempt> prepare_entry(Access access, Writing* w) {
  InHand& hand = access.lane.in_hand;
  if (!hand.fresh) {
    if (access.own().holdings == nullptr) {
      hand.fresh = access.own().table.allocate(access.worker().node_clock());
      co_await charge_scan(&access.lane);
    } else {
      const std::optional<EntryId> fresh = co_await allocate_entry(access);
      hand.fresh = fresh;
    }
    w->is_written = false;
    if (!hand.fresh) {
      ++access.own().counters.back_pressure;
      co_return Attempt::no_entry;
    }
  }
  if (access.settings().rules.links_before_write) co_return Attempt::ok;
  const bool is_stored = co_await store_entry(access, w);
  co_return is_stored ? Attempt::ok : Attempt::link_error;
}

coro::Task<Attempt> link(Access access, Writing* w) {
  const Settings& settings = access.settings();
  InHand& hand = access.lane.in_hand;
  const cuckoo::Place place = w->hash.candidate(w->rank);
  const bool is_fast = w->is_fast(settings.rules);
  Word expected = w->seen[w->rank];
  if (settings.rules.removes_before_commit && w->is_update) {
    const Word emptied = settings.format.emptied(expected);
    const Swap swap = co_await swap_index(access, place, expected, emptied, Proof::none);
    if (!swap.done()) co_return swap.outcome == Swap::Outcome::lost ? Attempt::conflict : Attempt::ambiguous;
    w->stage(settings.format.entry(expected));
    w->removed_any = true;
    expected = emptied;
  }
  const bool is_pending = settings.rules.commit == Commit::cas && !is_fast;
  const Word own =
      settings.format.occupied(*hand.fresh, w->hash.filter(settings.filter_bits), is_pending, expected);
  const bool stays = !is_fast || access.lane.has(Flaw::update_error_proves);
  const Proof proof = stays ? Proof::desired_stays : Proof::desired_unique;
  const Swap swap = co_await swap_index(access, place, expected, own, proof);
  if (swap.outcome == Swap::Outcome::lost) co_return Attempt::conflict;
  hand.linked = *hand.fresh;
  hand.fresh.reset();  // the entry is, or may be, in the index: it can be reused only after its expiry
  if (swap.outcome == Swap::Outcome::unknown) co_return co_await leave_link(access, w, own, expected);
  w->own = own;
  w->replaced = expected;
  w->seen[w->rank] = own;
  if (settings.rules.links_before_write) {
    const bool is_stored = co_await store_entry(access, w);
    if (!is_stored) co_return Attempt::ambiguous;
  }
  if (!settings.format.is_empty(expected)) {
    w->removed_any = true;
    w->stage(settings.format.entry(expected));
    if (access.lane.has(Flaw::stamps_before_commit)) co_await recycle_staged(access, w);
  }
  co_return Attempt::ok;
}

}  // namespace loch::nessie
