// What an operation had to leave in the index because a CAS ended in an error and its node could not be asked
// (A3): a pending word of its own that would keep its key locked for ever. The worker that left it goes on
// with it in the background, until the node is back and the slot says what has happened. Nobody else
// changes such a word while its owner lives; what a dead client left is scrub's (H12).
#include <algorithm>

#include "common/base/probe.h"
#include "nessie/session.h"

namespace loch::nessie {

Unfinished Session::leave(Unfinished::Step step, const cuckoo::Place& place, Word own, Word back,
                          const EntryId& entry) const {
  ++own_.counters.left_unfinished;
  Unfinished left;
  left.step = step;
  left.place = place;
  left.own = own;
  left.back = back;
  left.entry = entry;
  return left;
}

void Session::leave_move(const Move& move, Unfinished::Step step) {
  // Without tags nobody can tell whose emptying the source has seen: the copy stays where it is.
  const bool is_decidable = settings_.rules.migrate_tags || step != Unfinished::Step::decide_move;
  if (!settings_.rules.settles_later || !is_decidable) return;
  Unfinished left = leave(step, move.target, move.copy_word, move.target_word, move.copy);
  left.source = move.source;
  left.source_word = move.source_word;
  left.tag = settings_.format.tagged(move.copy_word);
  own_.unfinished.push_back(left);
}

// One try of each whose time has come.
coro::Task<void> Session::settle_unfinished() {
  stats_ = nullptr;
  const std::size_t waiting = own_.unfinished.size();
  for (std::size_t i = 0; i < waiting; ++i) {
    Unfinished left = own_.unfinished.front();
    if (worker_.now() < left.not_before) {
      own_.unfinished.pop_front();
      own_.unfinished.push_back(left);
      continue;
    }
    // It stays in the list meanwhile, so that its entry counts as in hand.
    const bool is_settled = co_await settle_one(left);
    own_.unfinished.pop_front();
    if (is_settled) {
      ++own_.counters.settled;
      continue;
    }
    LOCH_PROBE("nessie.unfinished-still");
    left.pause =
        std::max(settings_.recycle_interval, std::min(2 * left.pause, 4 * settings_.reconnect_timeout));
    left.not_before = worker_.now() + left.pause;
    own_.unfinished.push_back(left);
  }
}

coro::Task<bool> Session::settle_one(Unfinished left) {
  started_ = worker_.now();
  switch (left.step) {
    case Unfinished::Step::take_back:
      co_return co_await settle_taking_back(left);
    case Unfinished::Step::decide_move:
      co_return co_await settle_move(left);
    case Unfinished::Step::finish_move:
      co_return co_await finish_move(left);
  }
  co_return true;
}

// The slot gets back what it held. If the own word is not there any more, then the last CAS of the
// operation had taken place: its link never did (and nobody ever saw the entry), or it was taken back, or
// its commit had come.
coro::Task<bool> Session::settle_taking_back(Unfinished left) {
  if (own_.shares[left.place.node].is_void) co_return false;
  const Swap swap = co_await swap_index(left.place, left.own, left.back, Proof::none);
  if (swap.outcome == Swap::Outcome::unknown && swap.seen == 0) co_return false;
  const bool was_there = swap.done() || (swap.outcome == Swap::Outcome::unknown && swap.seen == left.back);
  if (was_there) {
    LOCH_PROBE("nessie.settled-by-taking-back");
    co_await bury_restored(left.place, left.back);
    co_await recycle(left.entry);
    co_return true;
  }
  // What it replaced has left the index then, unless an earlier try had taken the word back and the next one
  // to come has changed the slot since: owners find out.
  for (std::uint32_t i = 0; i < left.staged_count; ++i) {
    const EntryId staged = left.staged[i];
    co_await suspect(staged);
  }
  if (!left.is_commit) {
    LOCH_PROBE("nessie.settled-had-gone");
    co_await recycle(left.entry);
    co_return true;
  }
  // Committed, or, in that one case, not linked at all.
  LOCH_PROBE("nessie.settled-had-committed");
  const EntryId now = own_.table.current(left.entry.index);
  if (now == left.entry) {
    set_meta(left.entry, {.is_valid = true, .kind = EntryKind::put});
    own_.table.doubt(left.entry.index);
  }
  co_return true;
}

// The copy is in its target, pending. The source holds the tag of this move, which then is to be finished, or
// anything else: then the source was changed by somebody else, and the copy goes.
coro::Task<bool> Session::settle_move(Unfinished left) {
  const WordRead source = co_await read_index(left.source);
  if (!source.ok) co_return false;
  const bool is_forward = source.word == left.tag || has(Flaw::move_settles_forward);
  if (is_forward && !has(Flaw::move_settles_back)) {
    LOCH_PROBE("nessie.settled-move-forward");
    co_return co_await finish_move(left);
  }
  LOCH_PROBE("nessie.settled-move-back");
  co_return co_await settle_taking_back(left);
}

coro::Task<bool> Session::finish_move(Unfinished left) {
  if (settings_.rules.commit == Commit::cas) {
    const Word committed = settings_.format.committed(left.own);
    const Swap swap = co_await swap_index(left.place, left.own, committed, Proof::expected_ours);
    if (swap.outcome == Swap::Outcome::unknown) co_return false;
  }
  const EntryId now = own_.table.current(left.entry.index);
  if (now == left.entry) {
    set_meta(left.entry, {.is_valid = true, .kind = EntryKind::copy, .source_rank = left.source_rank});
    own_.table.doubt(left.entry.index);  // the target's node may have lost it
  }
  ++own_.counters.migrations;
  const EntryId old = settings_.format.entry(left.source_word);
  co_await recycle(old);
  co_return true;
}

bool Session::holds(const EntryId& id) const {
  if (is_writing_ && ((writing_.entry && *writing_.entry == id) || writing_.linked == id)) return true;
  return std::find(copies_.begin(), copies_.begin() + moves_, id) != copies_.begin() + moves_;
}

bool Session::is_in_hand(const EntryId& id) const {
  const auto has = [&](const Session* session) { return session->holds(id); };
  if (std::ranges::any_of(own_.sessions, has)) return true;
  return std::ranges::any_of(own_.unfinished, [&](const Unfinished& left) { return left.entry == id; });
}

}  // namespace loch::nessie
