// Splits a subtable while other clients work in it: bucket after bucket, each in steps that another client
// can go on with.
//
// A bucket's entries whose hash has the next bit are moved to the slots of the same numbers in the new
// subtable. While the old bucket's header has no moving_bit it holds them; with the bit they are frozen one
// by one, still count and cannot be changed; when the header has the new depth they count where they have
// been copied to, and the frozen words that they leave are free slots. So at each instant one word decides in
// which of the two subtables a bucket's slot is to be found.
#include <algorithm>
#include <array>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// A bucket of the subtable that is split, and its counterpart in the new subtable.
struct Move {
  fabric::NodeId node = 0;
  std::uint32_t suffix = 0, depth = 0;  // of the subtable before the split
  std::uint64_t from = 0, to = 0;       // offsets of the two buckets
};

using Words = std::array<Word, slots_per_bucket>;

enum class Moved : std::uint8_t { yes, again, failed };

Moved moved(Swap swap) { return swap == Swap::unknown ? Moved::failed : Moved::yes; }

// Freezes the word of slot `i` if its key belongs to the new subtable, and copies it there.
coro::Task<Moved> move_slot(Lane* lane, Move move, std::uint32_t i, Word word) {
  const Slot from{move.node, move.from + 8ULL * i}, to{move.node, move.to + 8ULL * i};
  if (is_free(word)) co_return Moved::yes;
  if (!is_frozen(word)) {
    const Fetched fetched = co_await fetch(lane, move.node, word, {}, nullptr);
    if (fetched.state == Fetched::State::failed) co_return Moved::failed;
    if (fetched.state == Fetched::State::changed) co_return Moved::again;
    const std::byte* key = lane->scratch.data() + lane->settings.block.key_at();
    const std::uint32_t hash = lane->settings.shape.places({key, fetched.head.key_bytes}).suffix;
    if ((hash >> move.depth & 1) == 0) co_return Moved::yes;
    // Its inserter either read the header before this client changed it, and will commit the entry, or takes
    // the entry away.
    if (is_pending(word)) co_return Moved::again;
    if (!lane->settings.has(Flaw::moves_unfrozen)) {
      const Swap frozen = co_await swap(lane, from, word, word | frozen_bit, Proof::after_stays, nullptr);
      if (frozen != Swap::done) co_return frozen == Swap::unknown ? Moved::failed : Moved::again;
    }
    ++lane->own.counters.entries_moved;
  }
  // Lost where a client that began this split had copied the word.
  const Swap copied = co_await swap(lane, to, 0, word & ~frozen_bit, Proof::before_stays, nullptr);
  co_return moved(copied);
}

// Frees the slots of entries that an earlier split has moved, and then announces this one.
coro::Task<Moved> announce(Lane* lane, Move move, Word header, Words words) {
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    const Slot slot{move.node, move.from + 8ULL * (i + 1)};
    if (!is_frozen(words[i])) continue;
    const Swap freed = co_await swap(lane, slot, words[i], 0, Proof::after_stays, nullptr);
    if (freed == Swap::unknown) co_return Moved::failed;
  }
  const Slot first{move.node, move.from};
  const Swap announced =
      co_await swap(lane, first, header, header | moving_bit, Proof::before_stays, nullptr);
  co_return moved(announced);
}

// Lays out the new bucket's header, and makes the new bucket the one that counts.
coro::Task<Moved> hand_over(Lane* lane, Move move) {
  const Slot old_header{move.node, move.from}, new_header{move.node, move.to};
  const Word laid_out = header_of(move.depth + 1, move.suffix | 1U << move.depth);
  const Swap first = co_await swap(lane, new_header, 0, laid_out, Proof::before_stays, nullptr);
  if (first == Swap::unknown) co_return Moved::failed;
  const Word before = header_of(move.depth, move.suffix) | moving_bit;
  const Word after = header_of(move.depth + 1, move.suffix);
  const Swap last = co_await swap(lane, old_header, before, after, Proof::before_stays, nullptr);
  ++lane->own.counters.buckets_moved;
  co_return moved(last);
}

// Moves one bucket, or what is left of it.
coro::Task<Moved> move_bucket(Lane* lane, Move move) {
  const Settings& s = lane->settings;
  const fabric::LocalSlice into{lane->node.buckets, lane->buckets_at()};
  for (std::uint32_t tries = 0; tries < s.attempts; ++tries) {
    const rpc::Remote* table = &lane->own.table[move.node];
    const bool is_read = co_await read(lane, table, move.from, into, bucket_bytes, nullptr);
    if (!is_read) co_return Moved::failed;
    const Word header = fabric::load_word(into.data());
    Words words{};
    fabric::copy_from_shared(words.data(), into.data() + 8, sizeof words);
    if (!is_header_of(header, move.suffix)) co_return Moved::failed;
    if (depth_of(header) > move.depth) co_return Moved::yes;
    if (!is_moving(header)) {
      const Moved announced = co_await announce(lane, move, header, words);
      if (announced != Moved::yes) co_return announced;
      // The slots are read after everybody can see the header: an INSERT that was not seen will see it.
      if (!s.has(Flaw::header_after_read)) continue;
    }
    Moved all = Moved::yes;
    for (std::uint32_t i = 0; i < words.size() && all != Moved::failed; ++i) {
      const Moved one = co_await move_slot(lane, move, i + 1, words[i]);
      all = std::max(all, one);
    }
    if (all == Moved::failed) co_return all;
    if (all == Moved::yes) co_return co_await hand_over(lane, move);
    LOCH_PROBE("race.split-waits");
    co_await kv::back_off(&lane->worker, s.backoff_start, s.backoff_cap, tries);
  }
  co_return Moved::again;
}

// Moves all buckets, and then tells of the new subtable in the directory.
coro::Task<Moved> move_all(Lane* lane, Move move) {
  const Shape& shape = lane->settings.shape;
  const std::uint32_t added = move.suffix | 1U << move.depth;
  for (std::uint64_t at = 0; at < shape.subtable_bytes(); at += bucket_bytes) {
    move.from = shape.subtable_bytes() * move.suffix + at;
    move.to = shape.subtable_bytes() * added + at;
    const Moved one = co_await move_bucket(lane, move);
    if (one != Moved::yes) co_return one;
  }
  const Slot global{move.node, shape.directory_at()}, entry{move.node, shape.entry_at(added)};
  for (;;) {
    const std::optional<Word> depth = co_await read_slot(lane, global);
    if (!depth) co_return Moved::failed;
    if (*depth > move.depth) break;
    const Swap raised = co_await swap(lane, global, *depth, move.depth + 1, Proof::after_stays, nullptr);
    if (raised == Swap::unknown) co_return Moved::failed;
  }
  const Swap told =
      co_await swap(lane, entry, 0, directory_entry(move.depth + 1), Proof::before_stays, nullptr);
  co_return moved(told);
}

}  // namespace

coro::Task<Split> split(Lane* lane, fabric::NodeId node, std::uint32_t suffix, std::uint32_t depth) {
  const Settings& s = lane->settings;
  const Slot entry{node, s.shape.entry_at(suffix)};
  const Word me = s.config.client_number(lane->worker.node(), lane->worker.index()) + 1;
  const Word open = directory_entry(depth);
  // The number of the lock tells it from all others that this worker sets, in its other lanes or later.
  const Word locked = open | me << 16 | Word{++lane->own.locks} << 40;
  const Nanos began = lane->worker.now();
  const Swap lock = co_await swap(lane, entry, open, locked, Proof::after_stays, nullptr);
  if (lock == Swap::lost) co_return Split::waits;
  if (lock == Swap::unknown) {
    lane->own.doubts.push_back({Doubt::Step::unlock, entry, locked, open, 0});
    co_return Split::failed;
  }
  const Moved ended = co_await move_all(lane, {.node = node, .suffix = suffix, .depth = depth});
  const Word after = ended == Moved::yes ? directory_entry(depth + 1) : open;
  const Swap unlocked = co_await swap(lane, entry, locked, after, Proof::before_stays, nullptr);
  if (unlocked == Swap::unknown) lane->own.doubts.push_back({Doubt::Step::unlock, entry, locked, after, 0});
  if (ended != Moved::yes) co_return ended == Moved::again ? Split::waits : Split::failed;
  ++lane->own.counters.splits;
  lane->own.counters.split_ns += static_cast<std::uint64_t>(lane->worker.now() - began);
  co_return Split::done;
}

}  // namespace loch::race
