// Executes a MIGRATE: links a copy of the key's entry in the target slot, empties the source slot, and
// commits the copy; first moves the target's key away if the target is full.
#include "nessie/migrate.h"

#include <algorithm>
#include <optional>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/remote.h"
#include "nessie/slot.h"
#include "nessie/stamps.h"
#include "nessie/unfinished.h"

namespace loch::nessie {
namespace {

// Source slots of the nested MIGRATEs (moves of keys) under way, indexed by depth.
using Path = std::array<cuckoo::Place, most_moves>;

coro::Task<Migrated> migrate_at(Access access, Path* path, cuckoo::Place source, Word word,
                                std::uint32_t depth);

// Allocates the entry that a MIGRATE copies to.
coro::Task<std::optional<EntryId>> allocate_copy(Access access) {
  Lane& lane = access.lane;
  if (lane.own.holdings != nullptr) co_return co_await allocate_entry(access);
  const std::optional<EntryId> copy = lane.own.table.allocate(lane.worker.node_clock());
  co_await charge_scan(&lane);
  co_return copy;
}

// Copies the source's whole entry to a new entry that is not in the index yet.
coro::Task<Attempt> copy_for_move(Access access, Move* move) {
  const Settings& settings = access.settings();
  const EntryLayout& entry = settings.entry;
  Lane& lane = access.lane;
  if (settings.format.is_empty(move->source_word) || settings.format.is_pending(move->source_word)) {
    co_return Attempt::conflict;
  }
  const Fetched found = co_await fetch(access, move->source_word, Extent::full);
  if (!found.ok) co_return found.why;
  if (!is_committed(settings, move->source_word, found.meta)) co_return Attempt::conflict;
  const std::optional<EntryId> copy = co_await allocate_copy(access);
  if (!copy) {
    ++lane.own.counters.back_pressure;
    co_return Attempt::no_entry;
  }
  move->copy = *copy;
  fabric::copy_from_shared(lane.key.data(), found.region->at(found.offset), entry.key_size());
  move->hash = settings.family.hash(lane.key);
  static_cast<void>(move->hash.candidate(settings.functions() -
                                         1));  // computes all hashes while the key's bytes are available
  const std::uint32_t rank = move->hash.rank_of(move->source);
  if (access.is_over_age() || rank == settings.functions()) {
    release_entry(lane, *copy);
    co_return rank == settings.functions() ? Attempt::conflict : Attempt::expired;
  }
  const auto functions = static_cast<Nanos>(settings.functions());
  co_await lane.worker.compute(functions * lane.worker.costs().hash(entry.key_size()) +
                               lane.worker.costs().copy(entry.full_bytes()));
  const auto kept =
      static_cast<std::uint32_t>(found.region->kept(found.offset + entry.value_at(), entry.value_size()));
  const kv::ValueView value{kept == 0 ? nullptr : found.region->at(found.offset + entry.value_at()),
                            entry.value_size(), kept};
  // The copy has no previous version, because a GET that followed it could return a value that a DELETE has
  // removed (known fault H6 of docs/protocols/nessie.md).
  const Word prev = settings.rules.migrate_keeps_previous ? move->source_word : 0;
  write_entry(lane, *copy,
              {.is_valid = false, .kind = EntryKind::copy, .source_rank = static_cast<std::uint8_t>(rank)},
              prev, {lane.key.data(), entry.key_size()}, value);
  if (lane.own.holdings == nullptr) co_return Attempt::ok;
  const bool is_placed = co_await place_entry(access, *copy);
  if (is_placed) co_return Attempt::ok;
  release_entry(lane, *copy);
  co_return Attempt::link_error;
}

// Finds the target slot: the first other candidate slot of the moved key that is not on the path of nested
// MIGRATEs (a chain of MIGRATEs must not come back to its beginning, H14 in docs/protocols/nessie.md). If
// that slot is full, first moves the key in it to another slot.
coro::Task<Attempt> find_target(Access access, Path* path, Move* move, std::uint32_t depth) {
  const WordFormat& format = access.settings().format;
  for (std::uint32_t i = 0; i < access.settings().functions(); ++i) {
    const cuckoo::Place place = move->hash.candidate(i);
    const auto path_end = path->begin() + depth + 1;
    if (std::find(path->begin(), path_end, place) != path_end) continue;
    const WordRead read = co_await read_index(access, place);
    if (!read.ok) co_return Attempt::link_error;
    Word target_word = read.word;
    if (!format.is_empty(target_word)) {
      const Migrated freed = co_await migrate_at(access, path, place, target_word, depth + 1);
      if (freed.ended != Attempt::ok) co_return freed.ended;
      const WordRead again = co_await read_index(access, place);
      if (!again.ok) co_return Attempt::link_error;
      if (!format.is_empty(again.word)) co_return Attempt::conflict;
      target_word = again.word;
    }
    const Reserve reserve = co_await is_reserved(access, target_word);
    if (const std::optional<Attempt> ended = ended_by(reserve)) co_return *ended;
    if (reserve == Reserve::reserved) co_return Attempt::conflict;
    move->target = place;
    move->target_word = target_word;
    co_return access.is_over_age() ? Attempt::expired : Attempt::ok;
  }
  co_return Attempt::table_full;
}

// Links in the target slot the copy that the MIGRATE (move of a key) has made of the entry, then empties the
// source slot.
coro::Task<Attempt> swing(Access access, Move* move) {
  const Settings& settings = access.settings();
  const WordFormat& format = settings.format;
  Lane& lane = access.lane;
  const bool is_pending = settings.rules.commit == Commit::cas;
  const std::uint64_t filter = move->hash.filter(settings.filter_bits);
  move->copy_word = format.occupied(move->copy, filter, is_pending, move->target_word);
  const Swap entered =
      co_await swap_index(access, move->target, move->target_word, move->copy_word, Proof::desired_stays);
  if (entered.outcome == Swap::Outcome::lost) {
    release_entry(lane, move->copy);
    co_return Attempt::conflict;
  }
  if (entered.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-in-unknown");
    leave_move(lane, *move, Unfinished::Step::take_back);
    co_return Attempt::link_error;
  }
  // The tag in the source slot of a MIGRATE (move of a key) names the copy; by the tag, the repair of a dead
  // client (scrub) distinguishes this MIGRATE from a DELETE. The tag stays until the copy is committed: if
  // the CAS ends in an error, finding the tag in the slot proves that the CAS took place (unlike an EMPTY
  // word, case A1 in docs/protocols/nessie.md). Without tags, MIGRATE writes the same word as a DELETE would.
  const bool is_tagging = settings.rules.migrate_tags;
  move->left = is_tagging ? format.tagged(move->copy_word) : format.emptied(move->source_word);
  const Swap emptied = co_await take_back(access, move->source, move->source_word, move->left,
                                          is_tagging ? Proof::desired_stays : Proof::none);
  if (emptied.done()) co_return Attempt::ok;
  if (emptied.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-out-unknown");
    leave_move(lane, *move, Unfinished::Step::decide_move);
    co_return Attempt::link_error;
  }
  ++lane.own.counters.migrations_undone;
  const Swap undone =
      co_await take_back(access, move->target, move->copy_word, move->target_word, Proof::expected_ours);
  if (undone.outcome == Swap::Outcome::unknown) {
    LOCH_PROBE("nessie.move-undo-unknown");
    leave_move(lane, *move, Unfinished::Step::take_back);
    co_return Attempt::link_error;
  }
  if (undone.done()) co_await recycle(access, move->copy);
  co_return Attempt::conflict;
}

coro::Task<Attempt> commit_move(Access access, Move* move) {
  const Settings& settings = access.settings();
  const std::uint32_t rank = move->hash.rank_of(move->source);
  const EntryMeta valid{
      .is_valid = true, .kind = EntryKind::copy, .source_rank = static_cast<std::uint8_t>(rank)};
  if (access.own().holdings != nullptr) {
    // Before a commit by CAS: once the word is committed, others may replace and reuse the entry.
    const bool is_marked = co_await mark_valid(access, move->copy, valid);
    if (!is_marked) {
      LOCH_PROBE("nessie.remote.move-mark-unknown");
      leave_move(access.lane, *move, Unfinished::Step::finish_move);
      co_return Attempt::link_error;
    }
  }
  if (settings.rules.commit == Commit::cas) {
    const Word committed = settings.format.committed(move->copy_word);
    const Swap swap =
        co_await swap_index(access, move->target, move->copy_word, committed, Proof::expected_ours);
    if (!swap.done()) {
      LOCH_PROBE("nessie.move-commit-unknown");
      leave_move(access.lane, *move, Unfinished::Step::finish_move);
      co_return Attempt::link_error;
    }
  }
  if (access.own().holdings == nullptr) set_meta(access.lane, move->copy, valid);
  const EntryId old = settings.format.entry(move->source_word);
  co_await recycle(access, old);
  co_return Attempt::ok;
}

coro::Task<Migrated> migrate_at(Access access, Path* path, cuckoo::Place source, Word word,
                                std::uint32_t depth) {
  if (depth >= access.settings().migrate_depth) co_return Migrated{Attempt::table_full};
  InHand& hand = access.lane.in_hand;
  const Nanos begun = access.worker().now();
  (*path)[depth] = source;
  Move move;
  move.source = source;
  move.source_word = word;
  const Attempt copied = co_await copy_for_move(access, &move);
  if (copied != Attempt::ok) co_return Migrated{copied};
  hand.copies[depth] = move.copy;
  hand.moves = depth + 1;
  const Attempt found = co_await find_target(access, path, &move, depth);
  hand.moves = depth + 1;
  if (found != Attempt::ok) {
    hand.moves = depth;
    release_entry(access.lane, move.copy);
    co_return Migrated{found};
  }
  const Attempt swung = co_await swing(access, &move);
  if (swung != Attempt::ok) {
    hand.moves = depth;
    co_return Migrated{swung};
  }
  ++access.own().counters.migrations;
  const Attempt committed = co_await commit_move(access, &move);
  hand.moves = depth;
  access.worker().mark("MIGRATE", begun);
  co_return Migrated{committed, move.left};
}

}  // namespace

coro::Task<Migrated> migrate(Access access, cuckoo::Place source, Word word) {
  Path path{};
  co_return co_await migrate_at(access, &path, source, word, 0);
}

coro::Task<Attempt> migrate_from(Access access, cuckoo::Place source) {
  const WordRead read = co_await read_index(access, source);
  if (!read.ok) co_return Attempt::link_error;
  const Migrated moved = co_await migrate(access, source, read.word);
  co_return moved.ended;
}

coro::Task<Attempt> migrate_key(Access access, kv::Key key) {
  cuckoo::KeyHash hash = access.settings().family.hash({key.data, key.size});
  for (std::uint32_t i = 0; i < access.settings().functions(); ++i) {
    const cuckoo::Place place = hash.candidate(i);
    const SlotSeen slot = co_await look_at_slot(access, place, key, &hash);
    if (slot.ended != Attempt::ok) co_return Attempt::link_error;
    if (slot.holder == Holder::other_key) continue;
    const Migrated moved = co_await migrate(access, place, slot.word);
    co_return moved.ended;
  }
  co_return Attempt::not_found;
}

}  // namespace loch::nessie
