// Records unfinished work for the background, and completes or undoes it there by reading the index slots
// concerned.
#include "nessie/unfinished.h"

#include <algorithm>

#include "common/base/probe.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/migrate.h"
#include "nessie/remote.h"
#include "nessie/stamps.h"

namespace loch::nessie {
namespace {

// Decides who owns the entries of memory nodes that an operation used, if the slot no longer holds the
// operation's own word. If no earlier try may have rolled the operation back, its last CAS took place: the
// entries that it replaced are this worker's. Else nobody knows, and they stay out of use.
coro::Task<void> share_out(Access access, Unfinished left, bool is_certain) {
  for (std::uint32_t i = 0; i < left.staged_count; ++i) {
    const EntryId staged = left.staged[i];
    if (is_certain) co_await recycle(access, staged);
    if (!is_certain) co_await suspect(access, staged);
  }
  // An entry that was to be committed is linked, unless an earlier try rolled the operation back. Any other
  // is in no slot: only this worker ever replaces a pending entry's word.
  if (!left.is_commit) co_await recycle(access, left.entry);
  if (left.is_commit && !is_certain) co_await suspect(access, left.entry);
}

// Rolls an operation back by a CAS from the operation's own word to the word that the slot held before. If
// the slot does not hold the own word, then the operation's last CAS took place, or the own word was never
// linked (so that no client saw the entry), or an earlier try rolled the operation back.
coro::Task<bool> settle_taking_back(Access access, Unfinished left) {
  if (access.own().shares[left.place.node].is_void) co_return false;
  const Swap swap = co_await swap_index(access, left.place, left.own, left.back, Proof::none);
  if (swap.outcome == Swap::Outcome::unknown && swap.seen == 0) co_return false;
  const bool was_there = swap.done() || (swap.outcome == Swap::Outcome::unknown && swap.seen == left.back);
  if (was_there) {
    LOCH_PROBE("nessie.settled-by-taking-back");
    co_await bury_restored(access, left.place, left.back);
    co_await recycle(access, left.entry);
    co_return true;
  }
  if (access.own().holdings != nullptr) {
    LOCH_PROBE("nessie.remote.settled-had-gone");
    co_await share_out(access, left, swap.outcome == Swap::Outcome::lost && !left.was_tried);
    co_return true;
  }
  // The slot no longer holds the operation's own word. Either the operation's last CAS took place, and the
  // entries that it replaced have left the index; or an earlier try rolled the operation back, after which
  // another operation changed the slot. The owners of the replaced entries are asked to find out whether any
  // word names them.
  for (std::uint32_t i = 0; i < left.staged_count; ++i) {
    const EntryId staged = left.staged[i];
    co_await suspect(access, staged);
  }
  if (!left.is_commit) {
    LOCH_PROBE("nessie.settled-had-gone");
    co_await recycle(access, left.entry);
    co_return true;
  }
  // The slot in which an entry was to be committed holds another word: either the entry was committed, or an
  // earlier try rolled the operation back and no word names the entry. This worker, the entry's owner,
  // examines the entry later (doubts.h).
  LOCH_PROBE("nessie.settled-had-committed");
  const EntryId now = access.own().table.current(left.entry.index);
  if (now == left.entry) {
    set_meta(access.lane, left.entry, {.is_valid = true, .kind = EntryKind::put});
    access.own().table.doubt(left.entry.index);
  }
  co_return true;
}

coro::Task<bool> finish_move(Access access, Unfinished left) {
  const bool is_remote = access.own().holdings != nullptr;
  if (is_remote) {
    const EntryMeta valid{.is_valid = true, .kind = EntryKind::copy, .source_rank = left.source_rank};
    const bool is_marked = co_await settle_valid(access, left.entry, valid);
    if (!is_marked) co_return false;
  }
  if (access.settings().rules.commit == Commit::cas) {
    const Word committed = access.settings().format.committed(left.own);
    const Swap swap = co_await swap_index(access, left.place, left.own, committed, Proof::expected_ours);
    if (swap.outcome == Swap::Outcome::unknown) co_return false;
  }
  if (!is_remote && access.own().table.current(left.entry.index) == left.entry) {
    set_meta(access.lane, left.entry,
             {.is_valid = true, .kind = EntryKind::copy, .source_rank = left.source_rank});
    // The copy made by the MIGRATE (move of a key) is examined later, because no word names it if the share
    // of the index with its target slot was lost.
    access.own().table.doubt(left.entry.index);
  }
  ++access.own().counters.migrations;
  const EntryId old = access.settings().format.entry(left.source_word);
  co_await recycle(access, old);
  co_return true;
}

// Completes or undoes a MIGRATE (move of a key) whose copy is pending in the target slot. If the source slot
// holds the tag of this MIGRATE, commits the copy. Otherwise another operation has changed the source slot,
// and the copy is removed.
coro::Task<bool> settle_move(Access access, Unfinished left) {
  const WordRead source = co_await read_index(access, left.source);
  if (!source.ok) co_return false;
  const bool is_forward = source.word == left.tag || access.lane.has(Flaw::move_settles_forward);
  if (is_forward && !access.lane.has(Flaw::move_settles_back)) {
    LOCH_PROBE("nessie.settled-move-forward");
    co_return co_await finish_move(access, left);
  }
  LOCH_PROBE("nessie.settled-move-back");
  co_return co_await settle_taking_back(access, left);
}

// Completes the commit of an entry of a memory node.
coro::Task<bool> settle_mark(Access access, Unfinished left) {
  const bool is_marked =
      co_await settle_valid(access, left.entry, {.is_valid = true, .kind = EntryKind::put});
  if (!is_marked) co_return false;
  LOCH_PROBE("nessie.remote.settled-mark");
  for (std::uint32_t i = 0; i < left.staged_count; ++i) {
    const EntryId staged = left.staged[i];
    co_await recycle(access, staged);
  }
  co_return true;
}

coro::Task<bool> settle_one(Access access, Unfinished left) {
  switch (left.step) {
    case Unfinished::Step::take_back:
      co_return co_await settle_taking_back(access, left);
    case Unfinished::Step::decide_move:
      co_return co_await settle_move(access, left);
    case Unfinished::Step::finish_move:
      co_return co_await finish_move(access, left);
    case Unfinished::Step::mark_valid:
      co_return co_await settle_mark(access, left);
  }
  co_return true;
}

}  // namespace

Unfinished leave(Lane& lane, Unfinished::Step step, const cuckoo::Place& place, Word own, Word back,
                 const EntryId& entry) {
  ++lane.own.counters.left_unfinished;
  Unfinished left;
  left.step = step;
  left.place = place;
  left.own = own;
  left.back = back;
  left.entry = entry;
  return left;
}

void leave_move(Lane& lane, const Move& move, Unfinished::Step step) {
  // If MIGRATEs (moves of keys) leave no tags in the slots that they empty, nobody can tell which operation
  // emptied a MIGRATE's source slot, so the MIGRATE's copy is left as it is.
  const bool is_decidable = lane.settings.rules.migrate_tags || step != Unfinished::Step::decide_move;
  if (!lane.settings.rules.settles_later || !is_decidable) return;
  Unfinished left = leave(lane, step, move.target, move.copy_word, move.target_word, move.copy);
  left.source = move.source;
  left.source_word = move.source_word;
  left.tag = lane.settings.format.tagged(move.copy_word);
  lane.own.unfinished.push_back(left);
}

coro::Task<void> settle_unfinished(Lane* lane) {
  WorkerState& own = lane->own;
  fabric::Worker& worker = lane->worker;
  const Settings& settings = lane->settings;
  const std::size_t waiting = own.unfinished.size();
  for (std::size_t i = 0; i < waiting; ++i) {
    Unfinished left = own.unfinished.front();
    if (worker.now() < left.not_before) {
      own.unfinished.pop_front();
      own.unfinished.push_back(left);
      continue;
    }
    // The work stays in the list while it is in progress, so that settle_doubts() leaves its entry alone.
    const bool is_settled = co_await settle_one({.lane = *lane, .started = worker.now()}, left);
    own.unfinished.pop_front();
    if (is_settled) {
      ++own.counters.settled;
      continue;
    }
    LOCH_PROBE("nessie.unfinished-still");
    left.was_tried = true;
    left.pause =
        std::max(settings.recycle_interval, std::min(2 * left.pause, 4 * settings.reconnect_timeout));
    left.not_before = worker.now() + left.pause;
    own.unfinished.push_back(left);
  }
}

}  // namespace loch::nessie
