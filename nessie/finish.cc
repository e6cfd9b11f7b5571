// Ends a PUT or DELETE after its own CAS: removes duplicates, commits, or rolls back.
#include "nessie/finish.h"

#include "common/base/probe.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/remote.h"
#include "nessie/slot.h"
#include "nessie/stamps.h"
#include "nessie/unfinished.h"

namespace loch::nessie {
namespace {

// Describes an operation that the background work is to roll back. The entries `staged` would have left the
// index when the operation ended; their owners are told only later that these entries may be reused.
Unfinished leave_staged(Lane& lane, const Writing& w, const cuckoo::Place& place) {
  Unfinished left = leave(lane, Unfinished::Step::take_back, place, w.own, w.replaced, lane.in_hand.linked);
  left.staged = w.staged;
  left.staged_count = w.staged_count;
  return left;
}

// Commits an entry of a memory node by a WRITE of its valid bit.
coro::Task<Attempt> commit_by_write(Access access, Writing* w) {
  const EntryId linked = access.lane.in_hand.linked;
  const EntryMeta valid{.is_valid = true, .kind = w->kind};
  const bool is_marked = co_await mark_valid(access, linked, valid);
  if (is_marked) co_return Attempt::ok;
  LOCH_PROBE("nessie.remote.valid-unknown");
  Unfinished left = leave_staged(access.lane, *w, w->hash.candidate(w->rank));
  left.step = Unfinished::Step::mark_valid;
  if (access.settings().rules.settles_later) access.own().unfinished.push_back(left);
  co_return Attempt::ambiguous;
}

coro::Task<Attempt> commit(Access access, Writing* w) {
  const Settings& settings = access.settings();
  if (settings.rules.commit == Commit::cas) {
    const cuckoo::Place place = w->hash.candidate(w->rank);
    const Swap swap =
        co_await swap_index(access, place, w->own, settings.format.committed(w->own), Proof::expected_ours);
    if (swap.outcome == Swap::Outcome::unknown) {
      LOCH_PROBE("nessie.commit-unknown");
      if (access.lane.has(Flaw::commit_unknown_is_conflict)) co_return Attempt::conflict;
      Unfinished left = leave_staged(access.lane, *w, place);
      left.is_commit = true;
      if (settings.rules.settles_later) access.own().unfinished.push_back(left);
      co_return Attempt::ambiguous;
    }
    // another client has replaced or removed this operation's pending word
    if (!swap.done()) co_return Attempt::conflict;
  }
  if (access.own().holdings != nullptr) {
    // After a commit by CAS the valid bit of a PUT's entry says nothing, and others may reuse the entry.
    if (settings.rules.commit == Commit::cas) co_return Attempt::ok;
    co_return co_await commit_by_write(access, w);
  }
  set_meta(access.lane, access.lane.in_hand.linked, {.is_valid = true, .kind = w->kind});
  co_return Attempt::ok;
}

// Ends a DELETE by taking its tombstone out of the index. To be called after the DELETE has verified that no
// other operation works on the key.
coro::Task<Attempt> end_tombstone(Access access, Writing* w) {
  const Settings& settings = access.settings();
  const cuckoo::Place place = w->hash.candidate(w->rank);
  const Swap swap =
      co_await take_back(access, place, w->own, settings.format.emptied(w->own), Proof::expected_ours);
  if (swap.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.delete-end-unknown");
    const Unfinished left = leave_staged(access.lane, *w, place);
    if (settings.rules.settles_later) access.own().unfinished.push_back(left);
    co_return Attempt::ambiguous;
  }
  if (swap.done()) co_await recycle(access, access.lane.in_hand.linked);
  if (!swap.done() && settings.rules.delete_must_win) co_return Attempt::conflict;
  co_return Attempt::ok;
}

}  // namespace

coro::Task<Attempt> remove_duplicates(Access access, Writing* w) {
  const Settings& settings = access.settings();
  for (std::uint32_t i = w->rank + 1; i < settings.functions(); ++i) {
    const cuckoo::Place place = w->hash.candidate(i);
    const SlotSeen slot = co_await look_at_slot(access, place, w->key, &w->hash);
    if (slot.ended != Attempt::ok) co_return slot.ended;
    w->seen[i] = slot.word;
    if (slot.holder == Holder::other_key) continue;
    const Word emptied = settings.format.emptied(slot.word);
    const Swap swap = co_await swap_index(access, place, slot.word, emptied, Proof::none);
    if (!swap.done()) co_return Attempt::conflict;
    w->seen[i] = emptied;
    w->removed_any = w->removed_any || slot.holder == Holder::committed;
    w->removed_duplicate = w->removed_duplicate || slot.holder == Holder::committed;
    w->stage(settings.format.entry(slot.word));
  }
  co_return Attempt::ok;
}

coro::Task<Attempt> end(Access access, Writing* w) {
  if (w->kind == EntryKind::tombstone) co_return co_await end_tombstone(access, w);
  co_return co_await commit(access, w);
}

coro::Task<Attempt> roll_back(Access access, Writing* w, Attempt why) {
  const Settings& settings = access.settings();
  ++access.own().counters.rollbacks;
  if (w->removed_duplicate) ++access.own().counters.removed_then_aborted;
  const bool replaced_entry = !settings.format.is_empty(w->replaced);
  if (settings.rules.rollback == Rollback::none) co_return why;
  const bool restores = settings.rules.rollback == Rollback::restore;
  const Word to = restores ? w->replaced : settings.format.emptied(w->own);
  const cuckoo::Place place = w->hash.candidate(w->rank);
  const EntryId linked = access.lane.in_hand.linked;
  const Swap swap = co_await take_back(access, place, w->own, to, Proof::expected_ours);
  if (swap.outcome == Swap::Outcome::unknown) {
    // The background work will roll the PUT back. Then the PUT has no effect, unless it has already removed a
    // duplicate of the key.
    LOCH_PROBE("nessie.rollback-unknown");
    if (!settings.rules.settles_later || w->removed_duplicate) co_return Attempt::ambiguous;
    access.own().unfinished.push_back(
        leave(access.lane, Unfinished::Step::take_back, place, w->own, to, linked));
    co_return Attempt::link_error;
  }
  if (swap.done()) {
    co_await bury_restored(access, place, to);
    co_await recycle(access, linked);  // readers may still hold the word of the rolled-back entry
    if (restores && replaced_entry && !access.lane.has(Flaw::rollback_stamps_restored)) {
      // The index slot names the replaced entry again, so this entry must not be stamped (marked for reuse).
      w->unstage(settings.format.entry(w->replaced));
    }
  }
  // Without removes_duplicates no operation touches another operation's entries. If this operation's word is
  // gone from the slot then, a repair has rolled this operation back: the replaced entry is linked again and
  // must not be stamped (marked for reuse).
  if (swap.done() || settings.rules.removes_duplicates) co_await recycle_staged(access, w);
  co_return why;
}

coro::Task<void> recycle_staged(Access access, Writing* w) {
  for (std::uint32_t i = 0; i < w->staged_count; ++i) {
    const EntryId id = w->staged[i];
    co_await recycle(access, id);
  }
  w->staged_count = 0;
}

}  // namespace loch::nessie
