// PUT (2017, 4.2.2), and the first part of a DELETE by tombstone (4.2.4): choose a slot, write a
// pending entry, swap it in, make sure that nobody interfered, commit.
#include <algorithm>

#include "common/base/probe.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<Attempt> Session::write_once() {
  Writing& w = writing_;
  w.rank = no_rank;
  w.is_update = w.all_were_read = w.removed_any = w.removed_duplicate = false;
  w.staged_count = 0;
  const Attempt chosen = co_await choose();
  if (chosen != Attempt::ok) co_return chosen;
  if (w.kind == EntryKind::tombstone && settings_.rules.delete_checks_first && !w.is_update) {
    co_return co_await confirm_absent();
  }
  if (w.rank == no_rank) {
    const Attempt room = co_await make_room();
    if (room != Attempt::ok) co_return room;
  }
  const bool is_fast = settings_.rules.fast_update && w.is_update && w.kind == EntryKind::put;
  const Attempt prepared = co_await prepare_entry(is_fast);
  if (prepared != Attempt::ok) co_return prepared;
  if (is_over_age()) co_return Attempt::expired;
  const Attempt linked = co_await link();
  if (linked != Attempt::ok) co_return linked;
  if (!is_fast) {
    if (settings_.rules.removes_duplicates && !w.all_were_read) {
      const Attempt removed = co_await remove_duplicates();
      if (removed != Attempt::ok) co_return co_await roll_back(removed);
    }
    const Attempt verified = co_await verify();
    if (verified != Attempt::ok) co_return co_await roll_back(verified);
    const Attempt ended = co_await end();
    if (ended != Attempt::ok) co_return ended;
  }
  co_await recycle_staged();
  const bool removed_nothing = w.kind == EntryKind::tombstone && !w.removed_any;
  co_return removed_nothing ? Attempt::not_found : Attempt::ok;
}

coro::Task<Attempt> Session::choose() {
  if (!writing_.entry) own_.table.prefetch_next();  // the READs below take their time
  expect(writing_.hash.candidate(0));
  const auto functions = static_cast<Nanos>(settings_.functions());
  co_await worker_.compute(functions * worker_.costs().hash(writing_.key.size));
  if (settings_.rules.full_scan) co_return co_await choose_after_full_scan();
  co_return co_await choose_first_fit();
}

// 2017 and 2015: the first slot that is EMPTY or holds the key.
coro::Task<Attempt> Session::choose_first_fit() {
  Writing& w = writing_;
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = w.hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    w.seen[i] = read.word;
    if (settings_.format.is_empty(read.word)) {
      w.rank = i;
      co_return Attempt::ok;
    }
    if (!holds_filter(read.word, w.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return unreadable_;
    if (holder == Holder::other_key) continue;
    if (holder == Holder::pending && settings_.rules.aborts_on_pending) co_return Attempt::conflict;
    w.rank = i;
    w.is_update = true;
    co_return Attempt::ok;
  }
  co_return Attempt::ok;
}

// Hardened (H1): all N slots are read before anything is changed; the one that holds the key comes
// first, then the first free one.
coro::Task<Attempt> Session::choose_after_full_scan() {
  Writing& w = writing_;
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = w.hash.candidate(i);
    const Nanos read_at = worker_.now();
    if (i + 1 < settings_.functions()) expect(w.hash.candidate(i + 1));
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    w.seen[i] = read.word;
    if (w.is_update || !holds_filter(read.word, w.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return unreadable_;
    if (holder == Holder::other_key) continue;
    if (holder == Holder::pending && settings_.rules.aborts_on_pending) co_return Attempt::conflict;
    w.rank = i;
    w.is_update = true;
    if (settings_.rules.fast_update && w.kind == EntryKind::put) co_return Attempt::ok;
  }
  if (w.is_update) co_return Attempt::ok;
  co_return co_await find_free_slot();
}

coro::Task<Session::Holder> Session::who_holds(Word word, Nanos read_at) {
  const kv::Key key = writing_.key;
  const std::optional<Look> cached = look_in_cache(word, read_at, key);
  if (cached) {
    co_await worker_.compute(worker_.costs().compare(key.size));
    pinned_.release();
    co_return *cached == Look::other_key ? Holder::other_key : Holder::committed;
  }
  const Fetched found = co_await fetch_for(word, Extent::header, key);
  if (!found.ok) co_return Holder::failed;
  if (!found.is_key) co_return Holder::other_key;
  co_return is_committed(word, found.meta) ? Holder::committed : Holder::pending;
}

coro::Task<Attempt> Session::find_free_slot() {
  Writing& w = writing_;
  bool is_any_reserved = false;
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    if (!settings_.format.is_empty(w.seen[i])) continue;
    const Reserve reserve = co_await is_reserved(w.seen[i]);
    if (reserve == Reserve::failed) co_return unreadable_;
    if (reserve == Reserve::free) {
      w.rank = i;
      co_return Attempt::ok;
    }
    is_any_reserved = true;
  }
  co_return is_any_reserved ? Attempt::conflict : Attempt::ok;
}

// H12: a slot that a MIGRATE emptied counts as occupied until its copy is committed, so that the
// evidence by which scrub decides is not overwritten.
coro::Task<Session::Reserve> Session::is_reserved(Word word) {
  const bool is_honoured = settings_.rules.migrate_tags && !has(Flaw::reserved_slot_is_free);
  if (!is_honoured || !settings_.format.is_tagged(word)) co_return Reserve::free;
  const Fetched copy = co_await fetch(word, Extent::header);
  // An entry that is another one by now, or whose node was declared lost, reserves nothing.
  if (copy.is_replaced || copy.is_gone) co_return Reserve::free;
  if (!copy.ok) co_return Reserve::failed;
  const bool is_unfinished = copy.meta.kind == EntryKind::copy && !copy.meta.is_valid &&
                             settings_.format.is_same_generation(word, copy.meta.generation);
  if (is_unfinished) ++own_.counters.reserved_slots;
  co_return is_unfinished ? Reserve::reserved : Reserve::free;
}

// All candidates hold other keys: the first one's key moves away (2017, 4.2.3).
coro::Task<Attempt> Session::make_room() {
  Writing& w = writing_;
  const cuckoo::Place source = w.hash.candidate(0);
  const Attempt moved = co_await migrate(source, w.seen[0], 0);
  if (moved != Attempt::ok) co_return moved;
  if (settings_.rules.migrate_rescans) co_return Attempt::again;
  w.rank = 0;
  w.seen[0] = left_;
  w.all_were_read = true;
  co_return Attempt::ok;
}

coro::Task<Attempt> Session::prepare_entry(bool is_valid) {
  Writing& w = writing_;
  if (!w.entry) {
    w.entry = own_.table.allocate(worker_.node_clock());
    w.is_written = false;
    co_await charge_scan();
    if (!w.entry) {
      ++own_.counters.back_pressure;
      co_return Attempt::no_entry;
    }
  }
  if (!settings_.rules.links_before_write) co_await store_entry(is_valid);
  co_return Attempt::ok;
}

coro::Task<void> Session::store_entry(bool is_valid) {
  Writing& w = writing_;
  // A value that an earlier attempt wrote, and nobody saw, is still there.
  if (!w.is_written) co_await worker_.compute(worker_.costs().copy(w.key.size + w.value.size));
  w.is_written = true;
  const EntryId id = w.entry ? *w.entry : w.linked;
  const Word before = settings_.rules.links_before_write ? w.replaced : w.seen[w.rank];
  const Word prev = w.is_update && !settings_.rules.removes_before_commit ? before : 0;
  write_entry(id, {.is_valid = is_valid, .kind = w.kind}, prev, w.key, w.value);
}

coro::Task<Attempt> Session::link() {
  Writing& w = writing_;
  const cuckoo::Place place = w.hash.candidate(w.rank);
  const bool is_fast = settings_.rules.fast_update && w.is_update && w.kind == EntryKind::put;
  Word expected = w.seen[w.rank];
  if (settings_.rules.removes_before_commit && w.is_update) {
    const Word emptied = settings_.format.emptied(expected);
    const Swap swap = co_await swap_index(place, expected, emptied, Proof::none);
    if (!swap.done()) co_return swap.outcome == Swap::Outcome::lost ? Attempt::conflict : Attempt::ambiguous;
    stage(expected);
    w.removed_any = true;
    expected = emptied;
  }
  const bool is_pending = settings_.rules.commit == Commit::cas && !is_fast;
  const Word own =
      settings_.format.occupied(*w.entry, w.hash.filter(settings_.filter_bits), is_pending, expected);
  const bool stays = !is_fast || has(Flaw::update_error_proves);
  const Proof proof = stays ? Proof::desired_stays : Proof::desired_unique;
  const Swap swap = co_await swap_index(place, expected, own, proof);
  if (swap.outcome == Swap::Outcome::lost) co_return Attempt::conflict;
  w.linked = *w.entry;
  w.entry.reset();  // in the index, or perhaps in it: it goes back only by way of its expiry
  if (swap.outcome == Swap::Outcome::unknown) {
    if (is_fast) {
      // Either entry may be the linked one: the owners of both find out.
      LOCH_PROBE("nessie.update-unknown");
      co_await suspect(w.linked);
      const EntryId replaced = settings_.format.entry(expected);
      co_await suspect(replaced);
      co_return Attempt::ambiguous;
    }
    // It will be taken back, and was never committed: nothing happened.
    LOCH_PROBE("nessie.link-unknown");
    if (has(Flaw::link_unknown_is_free)) {
      own_.table.release(w.linked);
      co_return Attempt::link_error;
    }
    if (!settings_.rules.settles_later) co_return Attempt::ambiguous;
    own_.unfinished.push_back(leave(Unfinished::Step::take_back, place, own, expected, w.linked));
    co_return Attempt::link_error;
  }
  w.own = own;
  w.replaced = expected;
  w.seen[w.rank] = own;
  if (settings_.rules.links_before_write) co_await store_entry(is_fast);
  if (!settings_.format.is_empty(expected)) {
    w.removed_any = true;
    stage(expected);
    if (has(Flaw::stamps_before_commit)) co_await recycle_staged();
  }
  co_return Attempt::ok;
}

coro::Task<Attempt> Session::end() {
  if (writing_.kind == EntryKind::tombstone) co_return co_await end_tombstone();
  co_return co_await commit();
}

coro::Task<Attempt> Session::commit() {
  Writing& w = writing_;
  if (settings_.rules.commit == Commit::cas) {
    const cuckoo::Place place = w.hash.candidate(w.rank);
    const Swap swap =
        co_await swap_index(place, w.own, settings_.format.committed(w.own), Proof::expected_ours);
    if (swap.outcome == Swap::Outcome::unknown) {
      LOCH_PROBE("nessie.commit-unknown");
      if (has(Flaw::commit_unknown_is_conflict)) co_return Attempt::conflict;
      Unfinished left = leave(Unfinished::Step::take_back, place, w.own, w.replaced, w.linked);
      left.is_commit = true;
      left.staged = w.staged;
      left.staged_count = w.staged_count;
      if (settings_.rules.settles_later) own_.unfinished.push_back(left);
      co_return Attempt::ambiguous;
    }
    if (!swap.done()) co_return Attempt::conflict;  // somebody broke the entry's lease
  }
  set_meta(w.linked, {.is_valid = true, .kind = w.kind});
  co_return Attempt::ok;
}

void Session::stage(Word word) {
  Writing& w = writing_;
  if (w.staged_count < w.staged.size()) w.staged[w.staged_count++] = settings_.format.entry(word);
}

coro::Task<void> Session::recycle_staged() {
  for (std::uint32_t i = 0; i < writing_.staged_count; ++i) {
    const EntryId id = writing_.staged[i];
    co_await recycle(id);
  }
  writing_.staged_count = 0;
}

void Session::give_back_entry() {
  if (writing_.entry) own_.table.release(*writing_.entry);
  writing_.entry.reset();
}

}  // namespace loch::nessie
