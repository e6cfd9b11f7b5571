// What a PUT or DELETE does between its own CAS and its commit: duplicates, verification, rollback.
#include "common/base/probe.h"
#include "nessie/session.h"

namespace loch::nessie {

// 2017 and 2015 (H1, H4, H5): other entries of the key beyond the own slot are CASed to EMPTY at
// once, pending ones too.
coro::Task<Attempt> Session::remove_duplicates() {
  Writing& w = writing_;
  for (std::uint32_t i = w.rank + 1; i < settings_.functions(); ++i) {
    const cuckoo::Place place = w.hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    w.seen[i] = read.word;
    if (!holds_filter(read.word, w.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return unreadable_;
    if (holder == Holder::other_key) continue;
    const Word emptied = settings_.format.emptied(read.word);
    const Swap swap = co_await swap_index(place, read.word, emptied, Proof::none);
    if (!swap.done()) co_return Attempt::conflict;
    w.seen[i] = emptied;
    w.removed_any = w.removed_any || holder == Holder::committed;
    w.removed_duplicate = w.removed_duplicate || holder == Holder::committed;
    stage(read.word);
  }
  co_return Attempt::ok;
}

coro::Task<Attempt> Session::verify() {
  if (has(Flaw::tombstone_unverified) && writing_.kind == EntryKind::tombstone) co_return Attempt::ok;
  const std::uint32_t functions = settings_.functions();
  switch (settings_.rules.verify) {
    case Verify::none:
      break;
    case Verify::reverse_pass:
      co_return co_await verify_slots(functions - 1, false);
    case Verify::every_other:
      co_return co_await verify_slots(functions, true);
  }
  co_return Attempt::ok;
}

// Reads slots from-1 … 0 again; each must hold what was recorded. Exact comparison: to let changes
// pass that do not concern the key is not safe beside MIGRATE (H13).
coro::Task<Attempt> Session::verify_slots(std::uint32_t from, bool skips_own) {
  Writing& w = writing_;
  for (std::uint32_t i = from; i-- > 0;) {
    if (skips_own && i == w.rank) continue;
    const cuckoo::Place place = w.hash.candidate(i);
    if (i > 0) expect(w.hash.candidate(i - 1));
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    if (read.word != w.seen[i]) {
      ++own_.counters.reverse_mismatches;
      co_return Attempt::conflict;
    }
  }
  co_return is_over_age() ? Attempt::expired : Attempt::ok;
}

// H3: the slot gets back exactly the word that it held; nothing that was replaced has been stamped
// yet. Duplicates that were removed stay removed, and are recycled.
coro::Task<Attempt> Session::roll_back(Attempt why) {
  Writing& w = writing_;
  ++own_.counters.rollbacks;
  if (w.removed_duplicate) ++own_.counters.removed_then_aborted;
  const bool replaced_entry = !settings_.format.is_empty(w.replaced);
  if (settings_.rules.rollback == Rollback::none) co_return why;
  const bool restores = settings_.rules.rollback == Rollback::restore;
  const Word to = restores ? w.replaced : settings_.format.emptied(w.own);
  const cuckoo::Place place = w.hash.candidate(w.rank);
  const Swap swap = co_await take_back(place, w.own, to, Proof::expected_ours);
  if (swap.outcome == Swap::Outcome::unknown) {
    // It is taken back later; nothing happened, unless another entry of the key was removed already.
    LOCH_PROBE("nessie.rollback-unknown");
    if (!settings_.rules.settles_later || w.removed_duplicate) co_return Attempt::ambiguous;
    own_.unfinished.push_back(leave(Unfinished::Step::take_back, place, w.own, to, w.linked));
    co_return Attempt::link_error;
  }
  if (swap.done()) {
    co_await bury_restored(place, to);
    co_await recycle(w.linked);  // readers may hold its word
    if (restores && replaced_entry && !has(Flaw::rollback_stamps_restored)) {
      // The entry that was staged first is back in its slot.
      const EntryId restored = settings_.format.entry(w.replaced);
      std::uint32_t kept = 0;
      for (std::uint32_t i = 0; i < w.staged_count; ++i) {
        if (w.staged[i] != restored) w.staged[kept++] = w.staged[i];
      }
      w.staged_count = kept;
    }
  }
  // Where nothing but the own entry is ever touched, only a repair can have taken it back: the entry
  // that it replaced is linked again, and must not be stamped.
  if (swap.done() || settings_.rules.removes_duplicates) co_await recycle_staged();
  co_return why;
}

// The tombstone was verified: nobody else is at work on the key, and it leaves the index.
coro::Task<Attempt> Session::end_tombstone() {
  Writing& w = writing_;
  const cuckoo::Place place = w.hash.candidate(w.rank);
  const Swap swap = co_await take_back(place, w.own, settings_.format.emptied(w.own), Proof::expected_ours);
  if (swap.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.delete-end-unknown");
    Unfinished left = leave(Unfinished::Step::take_back, place, w.own, w.replaced, w.linked);
    left.staged = w.staged;
    left.staged_count = w.staged_count;
    if (settings_.rules.settles_later) own_.unfinished.push_back(left);
    co_return Attempt::ambiguous;
  }
  if (swap.done()) co_await recycle(w.linked);
  if (!swap.done() && settings_.rules.delete_must_win) co_return Attempt::conflict;
  co_return Attempt::ok;
}

}  // namespace loch::nessie
