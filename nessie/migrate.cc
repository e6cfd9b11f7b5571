// MIGRATE (2017, 4.2.3 and 4.3.1): the key in a full slot moves to another of its candidates. Its
// entry is copied into a new one of this node; the copy enters the target, the source is emptied, and
// only then is the copy committed, so that the key is in the table once at every moment.
#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<Attempt> Session::migrate(cuckoo::Place source, Word word, std::uint32_t depth) {
  if (depth >= settings_.migrate_depth) co_return Attempt::table_full;
  const Nanos begun = worker_.now();
  path_[depth] = source;
  Move move;
  move.source = source;
  move.source_word = word;
  const Attempt copied = co_await copy_for_move(&move);
  if (copied != Attempt::ok) co_return copied;
  copies_[depth] = move.copy;
  moves_ = depth + 1;
  const Attempt found = co_await find_target(&move, depth);
  moves_ = depth + 1;
  if (found != Attempt::ok) {
    moves_ = depth;
    own_.table.release(move.copy);
    co_return found;
  }
  const Attempt swung = co_await swing(&move);
  if (swung != Attempt::ok) {
    moves_ = depth;
    co_return swung;
  }
  ++own_.counters.migrations;
  const Attempt committed = co_await commit_move(&move);
  moves_ = depth;
  worker_.mark("MIGRATE", begun);
  co_return committed;
}

// The source's entry, whole, in a new local entry that is not in the index yet.
coro::Task<Attempt> Session::copy_for_move(Move* move) {
  const EntryLayout& entry = settings_.entry;
  if (settings_.format.is_empty(move->source_word) || settings_.format.is_pending(move->source_word)) {
    co_return Attempt::conflict;
  }
  const Fetched found = co_await fetch(move->source_word, Extent::full);
  if (!found.ok) co_return unreadable_;
  if (!is_committed(move->source_word, found.meta)) co_return Attempt::conflict;
  const std::optional<EntryId> copy = own_.table.allocate(worker_.node_clock());
  co_await charge_scan();
  if (!copy) {
    ++own_.counters.back_pressure;
    co_return Attempt::no_entry;
  }
  move->copy = *copy;
  moved_key_.resize(entry.key_size());
  fabric::copy_from_shared(moved_key_.data(), found.region->at(found.offset), entry.key_size());
  move->hash = settings_.family.hash(moved_key_);
  static_cast<void>(move->hash.candidate(settings_.functions() - 1));  // while the bytes are here
  const std::uint32_t rank = move->hash.rank_of(move->source);
  if (is_over_age() || rank == settings_.functions()) {
    own_.table.release(*copy);
    co_return rank == settings_.functions() ? Attempt::conflict : Attempt::expired;
  }
  const auto functions = static_cast<Nanos>(settings_.functions());
  co_await worker_.compute(functions * worker_.costs().hash(entry.key_size()) +
                           worker_.costs().copy(entry.full_bytes()));
  const auto kept =
      static_cast<std::uint32_t>(found.region->kept(found.offset + entry.value_at(), entry.value_size()));
  const kv::ValueView value{kept == 0 ? nullptr : found.region->at(found.offset + entry.value_at()),
                            entry.value_size(), kept};
  // H6: no previous version. Following it could return a value that a DELETE has removed meanwhile.
  const Word prev = settings_.rules.migrate_keeps_previous ? move->source_word : 0;
  write_entry(*copy,
              {.is_valid = false, .kind = EntryKind::copy, .source_rank = static_cast<std::uint8_t>(rank)},
              prev, {moved_key_.data(), entry.key_size()}, value);
  co_return Attempt::ok;
}

// The first other candidate of the moved key that is not on the way that led here (H14); if it is
// full, its key moves first.
coro::Task<Attempt> Session::find_target(Move* move, std::uint32_t depth) {
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = move->hash.candidate(i);
    const auto path_end = path_.begin() + depth + 1;
    if (std::find(path_.begin(), path_end, place) != path_end) continue;
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    Word target_word = read.word;
    if (!settings_.format.is_empty(target_word)) {
      const Attempt freed = co_await migrate(place, target_word, depth + 1);
      if (freed != Attempt::ok) co_return freed;
      const WordRead again = co_await read_index(place);
      if (!again.ok) co_return Attempt::link_error;
      if (!settings_.format.is_empty(again.word)) co_return Attempt::conflict;
      target_word = again.word;
    }
    const Reserve reserve = co_await is_reserved(target_word);
    if (reserve == Reserve::failed) co_return unreadable_;
    if (reserve == Reserve::reserved) co_return Attempt::conflict;
    move->target = place;
    move->target_word = target_word;
    co_return is_over_age() ? Attempt::expired : Attempt::ok;
  }
  co_return Attempt::table_full;
}

coro::Task<Attempt> Session::swing(Move* move) {
  const WordFormat& format = settings_.format;
  const bool is_pending = settings_.rules.commit == Commit::cas;
  const std::uint64_t filter = move->hash.filter(settings_.filter_bits);
  move->copy_word = format.occupied(move->copy, filter, is_pending, move->target_word);
  const Swap entered =
      co_await swap_index(move->target, move->target_word, move->copy_word, Proof::desired_stays);
  if (entered.outcome == Swap::Outcome::lost) {
    own_.table.release(move->copy);
    co_return Attempt::conflict;
  }
  if (entered.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-in-unknown");
    leave_move(*move, Unfinished::Step::take_back);
    co_return Attempt::link_error;
  }
  // The tag names the copy, which is what lets scrub tell this MIGRATE's work from a DELETE's (H12). It stays
  // as long as the copy is not committed, so that after an error it proves itself (A1); without tags the word
  // is that of every deleter.
  const bool is_tagging = settings_.rules.migrate_tags;
  left_ = is_tagging ? format.tagged(move->copy_word) : format.emptied(move->source_word);
  const Swap emptied = co_await take_back(move->source, move->source_word, left_,
                                          is_tagging ? Proof::desired_stays : Proof::none);
  if (emptied.done()) co_return Attempt::ok;
  if (emptied.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-out-unknown");
    leave_move(*move, Unfinished::Step::decide_move);
    co_return Attempt::link_error;
  }
  ++own_.counters.migrations_undone;
  const Swap undone =
      co_await take_back(move->target, move->copy_word, move->target_word, Proof::expected_ours);
  if (undone.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-undo-unknown");
    leave_move(*move, Unfinished::Step::take_back);
    co_return Attempt::link_error;
  }
  if (undone.done()) co_await recycle(move->copy);
  co_return Attempt::conflict;
}

coro::Task<Attempt> Session::commit_move(Move* move) {
  if (settings_.rules.commit == Commit::cas) {
    const Word committed = settings_.format.committed(move->copy_word);
    const Swap swap = co_await swap_index(move->target, move->copy_word, committed, Proof::expected_ours);
    if (!swap.done()) {
      LOCH_PROBE("nessie.move-commit-unknown");
      leave_move(*move, Unfinished::Step::finish_move);
      co_return Attempt::link_error;
    }
  }
  const std::uint32_t rank = move->hash.rank_of(move->source);
  set_meta(move->copy,
           {.is_valid = true, .kind = EntryKind::copy, .source_rank = static_cast<std::uint8_t>(rank)});
  const EntryId old = settings_.format.entry(move->source_word);
  co_await recycle(old);
  co_return Attempt::ok;
}

coro::Task<Attempt> Session::migrate_from(cuckoo::Place source, fabric::OpStats* stats) {
  stats_ = stats;
  started_ = worker_.now();
  const WordRead read = co_await read_index(source);
  if (!read.ok) co_return Attempt::link_error;
  co_return co_await migrate(source, read.word, 0);
}

coro::Task<kv::OpResult> Session::migrate_key(kv::Key key, fabric::OpStats* stats) {
  stats_ = stats;
  started_ = worker_.now();
  writing_.key = key;
  writing_.hash = settings_.family.hash({key.data, key.size});
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = writing_.hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return result_of(Attempt::link_error, 0);
    if (!holds_filter(read.word, writing_.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return result_of(Attempt::link_error, 0);
    if (holder == Holder::other_key) continue;
    const Attempt moved = co_await migrate(place, read.word, 0);
    co_return result_of(moved, 0);
  }
  co_return result_of(Attempt::not_found, 0);
}

}  // namespace loch::nessie
